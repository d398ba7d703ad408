"""Obstacles between a resource and a resolver: each case on a real name server, with the state and cause shown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncGenerator, Callable, Generator
from ipaddress import ip_address
from pathlib import Path

import pytest
from culvert_db import DnsState
from culvert_dns_updater import schedule
from culvert_dns_updater.desired import ZoneProfile
from culvert_dns_updater.keeper import Outcome
from culvert_dns_updater.memory import Memory
from culvert_dns_updater.records import Ownership
from culvert_dns_updater.states import State, States
from culvert_dns_updater.tsig_key import KeyDirectory
from culvert_dns_updater.zone import Writing, Zone
from culvert_proto.backoff import Backoff

from .name_server import (
    KEY_NAME,
    ZONE,
    Bind,
    BindAsSecondary,
    BindWith,
    KnotWithTypes,
    NameServer,
    PowerDns,
    PowerDnsWithTypes,
)
from .world import TIMEOUT, World, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WIKI = "wiki.corp.example"
MARK = ['"ipsec-tunneling:yes"']
EMPTY_ZONE = "$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns.corp.example.\n"
CHILD = 'zone "dev.corp.example" { type primary; file "child.zone"; };'


@contextlib.contextmanager
def running(server: NameServer) -> Generator[NameServer]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


async def state_of(world: World, name: str, rtype: str = "A") -> tuple[DnsState, str | None, str]:
    row = (await world.records())[name, rtype]
    return row.state, row.reason, f"{row.message} {row.remedy}"


async def test_names_below_a_cut_are_occluded_and_nothing_is_written_there(
    world: World, any_server: NameServer
) -> None:
    below = {"dev.corp.example", "api.dev.corp.example", "x.old.corp.example"}
    any_server.edit(
        ("dev.corp.example", "NS", "ns.dev.corp.example."),
        ("ns.dev.corp.example", "A", "192.0.2.53"),
        ("old.corp.example", "DNAME", "new.corp.example."),
    )
    await world.publish_to(any_server)
    await world.put(dict.fromkeys([*below, WIKI], "10.20.0.10"))
    async with world.updater(any_server) as updater:
        assert await updater.run_once() is Outcome.INCOMPLETE
        assert (await state_of(world, WIKI))[0] is DnsState.LIVE
        for name in below:
            state, reason, words = await state_of(world, name)
            assert (state, reason) == (DnsState.OCCLUDED, "DNS_NAME_OCCLUDED")
            assert "Delete" not in words
        assert "dev.corp.example is delegated" in (await state_of(world, "api.dev.corp.example"))[2]
        assert "old.corp.example is redirected (DNAME)" in (await state_of(world, "x.old.corp.example"))[2]
        assert (await world.status()).state is DnsState.OCCLUDED
        await world.delete(below)
        assert await updater.run_once() is Outcome.LIVE


async def test_a_name_is_occluded_as_soon_as_a_delegation_is_above_it(
    world: World, any_server: NameServer
) -> None:
    await world.publish_to(any_server)
    await world.put({"api.dev.corp.example": "10.20.0.10"})
    async with world.updater(any_server) as updater:
        assert await updater.run_once() is Outcome.LIVE
        any_server.edit(("dev.corp.example", "NS", "ns.corp.example."))
        assert await updater.run_once() is Outcome.INCOMPLETE
        assert (await state_of(world, "api.dev.corp.example"))[0] is DnsState.OCCLUDED


async def test_a_child_zone_on_the_same_server_occludes_without_a_delegation(
    world: World, tmp_path: Path
) -> None:
    """PowerDNS issue 1840. Only the server's answer shows it."""
    bind = BindWith(tmp_path / "named", CHILD)
    (bind.directory / "child.zone").write_text(EMPTY_ZONE)
    with running(bind):
        await world.publish_to(bind)
        await world.put({"api.dev.corp.example": "10.20.0.10", WIKI: "10.20.0.11"})
        async with world.updater(bind) as updater:
            assert await updater.run_once() is Outcome.INCOMPLETE
            state, reason, words = await state_of(world, "api.dev.corp.example")
            assert (state, reason) == (DnsState.OCCLUDED, "DNS_NAME_OCCLUDED")
            assert "dev.corp.example is a zone of its own on the same server" in words
            assert (await state_of(world, WIKI))[0] is DnsState.LIVE


async def test_while_another_name_is_written_an_occluded_one_stays_occluded(tmp_path: Path) -> None:
    bind = BindWith(tmp_path / "named", CHILD)
    (bind.directory / "child.zone").write_text(EMPTY_ZONE)
    announced: list[States] = []

    async def announce(states: States) -> None:
        announced.append(states)

    with running(bind):
        ownership = Ownership("default", 60)
        profile = ZoneProfile(1, "corp", ZONE, bind.address, bind.port, KEY_NAME, ownership, None, False)
        zone = Zone(profile, KeyDirectory(bind.key_dir)(KEY_NAME), TIMEOUT, Memory())
        here = frozenset({ip_address("10.20.0.10")})
        for names in (["api.dev.corp.example"], ["api.dev.corp.example", WIKI]):
            await zone.apply(dict.fromkeys(names, here), Writing(announce, lambda: True))
    first, second = (states["api.dev.corp.example", "A"].state for states in announced)
    assert (first, second) == (State.PENDING, State.OCCLUDED)


async def test_a_rewritten_answer_is_reported_with_its_values(world: World, tmp_path: Path) -> None:
    """A response policy zone (RPZ) rewrites the answer."""
    more = 'zone "rpz.example" { type primary; file "rpz.zone"; };'
    bind = BindWith(tmp_path / "named", more)
    conf = bind.directory / "named.conf"
    policy = 'notify no; recursion yes; response-policy { zone "rpz.example"; } recursive-only no qname-wait-recurse no;'
    conf.write_text(conf.read_text().replace("recursion no;", "").replace("notify no;", policy))
    (bind.directory / "rpz.zone").write_text(f"{EMPTY_ZONE}{WIKI} A 192.0.2.99\n")
    with running(bind):
        await world.publish_to(bind)
        await world.put({WIKI: "10.20.0.10"})
        async with world.updater(bind) as updater:
            assert await updater.run_once() is Outcome.FAILED
            state, reason, words = await state_of(world, WIKI)
            assert (state, reason) == (DnsState.PENDING, "DNS_NAME_NOT_SERVED")
            assert "it answers A 192.0.2.99" in words


async def test_the_zones_apex_is_a_name_like_others(world: World, any_server: NameServer) -> None:
    before = any_server.lookup(ZONE, "NS")
    await world.publish_to(any_server)
    await world.put({ZONE: "10.20.0.10"})
    any_server.edit((ZONE, "TXT", '"v=spf1 -all"'))
    async with world.updater(any_server) as updater:
        assert await updater.run_once() is Outcome.LIVE
        assert any_server.lookup(ZONE, "A") == ["10.20.0.10"]
        assert any_server.lookup(ZONE, "TXT") == [*MARK, '"v=spf1 -all"']
        await world.put({ZONE: "2001:db8::10"})
        assert await updater.run_once() is Outcome.LIVE
        assert (any_server.lookup(ZONE, "A"), any_server.lookup(ZONE, "AAAA")) == ([], ["2001:db8::10"])
        await world.delete([ZONE])
        assert await updater.run_once() is Outcome.LIVE
        assert any_server.lookup(ZONE, "AAAA") == []
        assert any_server.lookup(ZONE, "TXT") == ['"v=spf1 -all"']
        assert any_server.lookup(ZONE, "NS") == before

        any_server.edit((ZONE, "A", "192.0.2.80"))
        await world.put({ZONE: "10.20.0.10"})
        assert await updater.run_once() is Outcome.INCOMPLETE
        state, reason, words = await state_of(world, ZONE)
        assert (state, reason) == (DnsState.FOREIGN, "DNS_RECORD_FOREIGN")
        # Advice that would take the zone away must not be given.
        assert "does not own: A." in words


async def test_beside_a_dname_the_apex_is_served_and_names_below_are_not(
    world: World, tmp_path: Path
) -> None:
    """Only PowerDNS takes a DNAME above names that exist."""
    with running(PowerDns(tmp_path / "server")) as server:
        server.edit((ZONE, "DNAME", "other.example."))
        await world.publish_to(server)
        await world.put({ZONE: "10.20.0.10", WIKI: "10.20.0.11"})
        async with world.updater(server) as updater:
            assert await updater.run_once() is Outcome.INCOMPLETE
        assert (await state_of(world, ZONE))[0] is DnsState.LIVE
        assert (await state_of(world, WIKI))[:2] == (DnsState.OCCLUDED, "DNS_NAME_OCCLUDED")


async def test_a_refused_name_waits_and_others_do_not(
    world: World, bind: Bind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BIND takes no “_” in a host's name. What is refused is tried again after half an hour at the soonest."""
    monkeypatch.setattr(schedule, "RETRY", Backoff(3600.0, 3600.0))
    await world.publish_to(bind)
    await world.put({"a_b.corp.example": "10.20.0.9", WIKI: "10.20.0.10"})
    async with world.running(bind):
        await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.10"])
        async with asyncio.timeout(60):
            while (await state_of(world, "a_b.corp.example"))[0] is not DnsState.REFUSED:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await world.put({"git.corp.example": "10.20.0.11", WIKI: "10.20.0.12"})
        await until(lambda: bind.lookup("git.corp.example", "A") == ["10.20.0.11"])
        assert bind.lookup(WIKI, "A") == ["10.20.0.12"]
    _, reason, words = await state_of(world, "a_b.corp.example")
    assert reason == "DNS_NAME_REFUSED"
    assert "a host's name has no “_”" in words
    assert "Check the TSIG key" not in words
    assert (await state_of(world, "git.corp.example"))[0] is DnsState.LIVE


async def test_a_sound_name_after_many_refused_ones_is_published(world: World, bind: Bind) -> None:
    """More than as many as are tried before a zone is given up for the pass."""
    await world.publish_to(bind)
    await world.put({f"a_{i}.corp.example": "10.20.0.9" for i in range(40)} | {WIKI: "10.20.0.10"})
    async with world.running(bind):
        await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.10"])


async def state_of_zone(world: World) -> tuple[DnsState, str | None]:
    """The console's state of the zone as a whole."""
    status = await world.status()
    return status.state, status.reason


def bind_with_types(directory: Path) -> Bind:
    return BindWith(directory, policy=f"grant {KEY_NAME} zonesub A TXT;")


@pytest.mark.parametrize("make", [bind_with_types, KnotWithTypes])
async def test_a_key_needs_only_the_types_in_use_and_its_limits_are_shown(
    world: World, tmp_path: Path, make: Callable[[Path], NameServer], caplog: pytest.LogCaptureFixture
) -> None:
    with running(make(tmp_path / "server")) as server:
        await world.publish_to(server)
        await world.put({WIKI: "10.20.0.10"})
        async with world.updater(server) as updater:
            assert await updater.run_once() is Outcome.LIVE
            assert f"the key {KEY_NAME} may not write AAAA:" in caplog.text
            assert await state_of_zone(world) == (DnsState.LIVE, "DNS_KEY_LIMITED")
        # With nothing to write, either.
        async with world.updater(server) as updater:
            assert await updater.run_once() is Outcome.LIVE
            assert await state_of_zone(world) == (DnsState.LIVE, "DNS_KEY_LIMITED")
            await world.put({WIKI: "10.20.0.11"})
            assert await updater.run_once() is Outcome.LIVE
            assert server.lookup(WIKI, "A") == ["10.20.0.11"]
            await world.delete([WIKI])
            assert await updater.run_once() is Outcome.LIVE
            assert (server.lookup(WIKI, "A"), server.lookup(WIKI, "TXT")) == ([], [])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (bind_with_types, "DNS_KEY_LIMITED"),
        (KnotWithTypes, "DNS_KEY_LIMITED"),
        (PowerDnsWithTypes, "DNS_UPDATE_IGNORED"),
    ],
)
async def test_a_type_that_the_key_may_not_write_does_not_block_others(
    world: World, tmp_path: Path, make: Callable[[Path], NameServer], why: str
) -> None:
    with running(make(tmp_path / "server")) as server:
        await world.publish_to(server)
        await world.put({WIKI: "10.20.0.10 2001:db8::10", "git.corp.example": "10.20.0.11"})
        async with world.updater(server) as updater:
            for _ in range(2):
                assert await updater.run_once() is Outcome.FAILED
                state, reason, words = await state_of(world, WIKI, "AAAA")
                assert (state, reason) == (DnsState.REFUSED, why)
                assert "AAAA" in words
                assert (server.lookup(WIKI, "A"), server.lookup(WIKI, "TXT")) == (["10.20.0.10"], MARK)
                assert (await state_of(world, "git.corp.example"))[0] is DnsState.LIVE


async def test_a_key_for_some_names_publishes_these(world: World, tmp_path: Path) -> None:
    """rancher issue 8621."""
    bind = BindWith(tmp_path / "named", policy=f"grant {KEY_NAME} subdomain dev.corp.example. ANY;")
    with running(bind):
        await world.publish_to(bind)
        await world.put({WIKI: "10.20.0.10", "api.dev.corp.example": "10.20.0.11"})
        async with world.updater(bind) as updater:
            assert await updater.run_once() is Outcome.FAILED
        assert (await state_of(world, "api.dev.corp.example"))[0] is DnsState.LIVE
        assert (await state_of(world, WIKI))[:2] == (DnsState.REFUSED, "DNS_UPDATE_REFUSED")


async def test_more_records_than_a_server_takes_are_not_blamed_on_the_key(world: World, bind: Bind) -> None:
    """BIND's limit max-records-per-type."""
    await world.publish_to(bind)
    await world.put({WIKI: " ".join(f"10.20.0.{i}" for i in range(1, 151)), "git.corp.example": "10.20.0.11"})
    async with world.updater(bind) as updater:
        assert await updater.run_once() is Outcome.FAILED
    state, reason, words = await state_of(world, WIKI)
    assert (state, reason) == (DnsState.REFUSED, "DNS_UPDATE_FAILED")
    assert "TSIG key" not in words
    assert (await state_of(world, "git.corp.example"))[0] is DnsState.LIVE


async def test_a_refused_transfer_is_reported_as_one(world: World, tmp_path: Path) -> None:
    """external-dns issue 2980."""
    bind = BindWith(tmp_path / "named")
    conf = bind.directory / "named.conf"
    conf.write_text(
        conf.read_text().replace(f"allow-transfer {{ key {KEY_NAME}; }}", "allow-transfer { none; }")
    )
    with running(bind):
        await world.publish_to(bind)
        await world.put({WIKI: "10.20.0.10"})
        async with world.updater(bind) as updater:
            assert await updater.run_once() is Outcome.FAILED
    state, reason, words = await state_of(world, WIKI)
    assert (state, reason) == (DnsState.REFUSED, "DNS_TRANSFER_REFUSED")
    assert "which keys may transfer the zone" in words


async def test_an_update_that_is_accepted_and_ignored_is_reported(
    world: World, bind: Bind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The secondary forwards it, and does not hear from its primary."""
    caplog.set_level(logging.INFO)
    secondary = BindAsSecondary(tmp_path / "secondary", bind)
    with running(secondary):
        await world.publish_to(secondary)
        await world.put({WIKI: "10.20.0.10"})
        async with world.updater(secondary) as updater:
            assert await updater.run_once() is Outcome.FAILED
        assert bind.lookup(WIKI, "A") == ["10.20.0.10"]
        state, reason, words = await state_of(world, WIKI)
        assert (state, reason) == (DnsState.REFUSED, "DNS_UPDATE_IGNORED")
        assert "enter its primary" in words
        assert "names written" not in caplog.text


async def test_names_written_are_those_that_the_zone_holds(
    world: World, bind: Bind, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await world.publish_to(bind)
    await world.put({"a_b.corp.example": "10.20.0.9", WIKI: "10.20.0.10"})
    async with world.updater(bind) as updater:
        assert await updater.run_once() is Outcome.FAILED
    assert "1 names written" in caplog.text


async def test_a_zone_that_is_signed_a_moment_later_is_live_in_one_pass(world: World, tmp_path: Path) -> None:
    """terraform-provider-dns issue 89: inline signing."""
    bind = BindWith(tmp_path / "named")
    conf = bind.directory / "named.conf"
    conf.write_text(
        conf.read_text().replace("type primary;", "type primary; dnssec-policy default; inline-signing yes;")
    )
    with running(bind):
        await world.publish_to(bind)
        await world.put({WIKI: "10.20.0.10"})
        async with world.updater(bind) as updater:
            assert await updater.run_once() is Outcome.LIVE


@pytest.mark.parametrize("is_silent", [False, True])
async def test_a_servers_second_address_is_used_when_the_first_is_dead(
    world: World, bind: Bind, monkeypatch: pytest.MonkeyPatch, is_silent: bool
) -> None:
    """external-dns issue 6733. It refuses the connection, or takes it and says nothing."""
    right = socket.getaddrinfo

    def found(host: str, *rest: object, **more: object) -> object:
        if host != "ns.name":
            return right(host, *rest, **more)  # pyright: ignore[reportArgumentType]
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, bind.port))
            for address in ("127.0.0.2", bind.address)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    async with contextlib.AsyncExitStack() as stack:
        if is_silent:
            stack.enter_context(socket.create_server(("127.0.0.2", bind.port)))
        await world.publish_to(bind, server="ns.name")
        await world.put({WIKI: "10.20.0.10"})
        async with world.updater(bind, patience=5) as updater:
            assert await updater.run_once() is Outcome.LIVE
    bind.stop()
    async with world.updater(bind) as updater:
        assert await updater.run_once() is Outcome.FAILED
    assert "127.0.0.2: it refuses the connection; 127.0.0.1: it refuses" in (await state_of(world, WIKI))[2]


async def test_an_unreachable_servers_cause_is_reported(world: World, bind: Bind) -> None:
    await world.publish_to(bind, server="no-such.invalid")
    await world.put({WIKI: "10.20.0.10"})
    async with world.updater(bind) as updater:
        assert await updater.run_once() is Outcome.FAILED
    state, reason, words = await state_of(world, WIKI)
    assert (state, reason) == (DnsState.UNREACHABLE, "DNS_UPDATE_UNREACHABLE")
    assert "its name has no address" in words


@contextlib.asynccontextmanager
async def slow_line(server: NameServer, pause: float) -> AsyncGenerator[int]:
    """The port of a line to the server that carries a few kilobytes at a time."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pause: float) -> None:
        with contextlib.closing(writer):
            while some := await reader.read(16_384):
                writer.write(some)
                await writer.drain()
                await asyncio.sleep(pause)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far, to = await asyncio.open_connection(server.address, server.port)
        with contextlib.suppress(OSError):
            await asyncio.gather(carry(reader, to, 0), carry(far, writer, pause))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        yield listener.sockets[0].getsockname()[1]


@pytest.mark.long
async def test_a_large_zones_transfer_may_take_longer_than_one_message(world: World, tmp_path: Path) -> None:
    """The limit of time is each message's, not the whole transfer's (dnspython issue 705)."""
    bind = Bind(tmp_path / "named")
    with (bind.directory / f"{ZONE}.zone").open("a") as zone:
        zone.writelines(f"host-{i} A 10.1.{i >> 8}.{i & 255}\n" for i in range(20_000))
    with running(bind):
        async with slow_line(bind, 0.5) as port:
            await world.publish_to(bind, port=port)
            await world.put({WIKI: "10.20.0.10"})
            patience = 1.5
            began = time.monotonic()
            async with world.updater(bind, patience=patience) as updater:
                assert await updater.run_once() is Outcome.LIVE
            assert time.monotonic() - began > 6 * patience
