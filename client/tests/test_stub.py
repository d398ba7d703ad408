"""The stub's two sides on real sockets: hostile name servers, floods of garbage, and BIND."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from pathlib import Path

import dns.asyncquery
import dns.flags
import dns.message
import dns.rcode
import pytest
from culvert_client.config import Endpoint
from culvert_client.core import dns_wire
from culvert_client.core.dns_wire import QueryKind, Question
from culvert_client.platform.linux.socket_owner import SocketOwner
from culvert_client.stub import listener
from culvert_client.stub.upstream import Upstream
from culvert_lab.free_port import free_port

from .bind import serving_zones
from .name_server import Answer, Records, from_records, name_server, respond, truncated
from .running import PLATFORM, running

WIKI = "wiki.corp.example"
RECORDS: Records = {(WIKI, "A"): ["10.20.0.10"]}
QUERY = dns.message.make_query(WIKI, "A").to_wire()


def addresses(reply: bytes | None) -> set[str]:
    assert reply is not None
    return {str(address) for address in dns_wire.addresses_in(reply) or ()}


async def test_forged_answers_are_passed_over_and_the_real_one_is_taken() -> None:
    forged: Records = {(WIKI, "A"): ["203.0.113.66"]}
    other = dns.message.make_query("other.corp.example", "A").to_wire()

    def answer(query: bytes) -> list[bytes]:
        wrong_id = dns_wire.with_id(respond(query, forged), dns_wire.id_of(query) ^ 1)
        wrong_name = dns_wire.with_id(respond(other, forged), dns_wire.id_of(query))
        return [b"", b"junk", query, wrong_id, wrong_name, respond(query, RECORDS)]

    async with name_server(answer) as (endpoint, _):
        assert addresses(await Upstream(endpoint).exchange(QUERY)) == {"10.20.0.10"}


async def test_queries_have_our_own_ids_and_answers_the_askers() -> None:
    async with name_server(from_records(RECORDS)) as (endpoint, asked):
        upstream = Upstream(endpoint)
        replies = [await upstream.exchange(dns_wire.with_id(QUERY, 7)) for _ in range(8)]
    assert all(reply is not None and dns_wire.id_of(reply) == 7 for reply in replies)
    assert len({dns_wire.id_of(query) for query in asked}) > 4
    assert all(query[2:] == QUERY[2:] for query in asked)


async def test_a_truncated_answer_is_fetched_whole_over_tcp() -> None:
    async with name_server(lambda query: [truncated(query)], lambda query: respond(query, RECORDS)) as (
        endpoint,
        _,
    ):
        assert addresses(await Upstream(endpoint).exchange(QUERY)) == {"10.20.0.10"}
    async with name_server(lambda query: [truncated(query)]) as (endpoint, _):
        assert await Upstream(endpoint).exchange(QUERY) is None


async def test_a_lost_query_is_sent_again_and_silence_ends() -> None:
    dropped: list[bytes] = []

    def answer(query: bytes) -> list[bytes]:
        dropped.append(query)
        return [respond(query, RECORDS)] if len(dropped) > 1 else []

    async with name_server(answer) as (endpoint, _):
        assert addresses(await Upstream(endpoint).exchange(QUERY)) == {"10.20.0.10"}
    assert await Upstream(Endpoint("127.0.0.1", free_port())).exchange(QUERY) is None


# ── broken name servers ─────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def three_servers(
    *answers: Answer, over_tcp: Callable[[bytes], bytes] | None = None
) -> AsyncGenerator[tuple[Upstream, list[list[bytes]]]]:
    """A client of three name servers, and the queries that each of them got over UDP; `over_tcp` is of all three."""
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(name_server(it, over_tcp)) for it in answers]
        yield Upstream(*(endpoint for endpoint, _ in servers)), [asked for _, asked in servers]


def failing(rcode: dns.rcode.Rcode) -> Answer:
    return lambda query: [dns_wire.refusal(query, rcode)]


def silent(_: bytes) -> list[bytes]:
    return []


good = from_records(RECORDS)
FAILURES = [dns.rcode.REFUSED, dns.rcode.SERVFAIL, dns.rcode.NOTIMP]


@pytest.mark.parametrize("rcode", FAILURES)
async def test_after_a_failure_the_next_name_server_is_asked(rcode: dns.rcode.Rcode) -> None:
    async with three_servers(failing(rcode), failing(rcode), good) as (upstream, asked):
        assert addresses(await upstream.exchange(QUERY)) == {"10.20.0.10"}
    assert list(map(len, asked)) == [1, 1, 1]


async def test_a_failure_of_every_name_server_is_the_answer() -> None:
    async with three_servers(*map(failing, FAILURES)) as (upstream, asked):
        reply = await upstream.exchange(QUERY)
    assert reply is not None
    assert dns.message.from_wire(reply).rcode() == dns.rcode.REFUSED
    assert list(map(len, asked)) == [1, 1, 1]


async def test_an_absent_name_is_believed_of_the_first_name_server() -> None:
    async with three_servers(failing(dns.rcode.NXDOMAIN), good, good) as (upstream, asked):
        reply = await upstream.exchange(QUERY)
    assert reply is not None
    assert dns.message.from_wire(reply).rcode() == dns.rcode.NXDOMAIN
    assert list(map(len, asked)) == [1, 0, 0]


async def test_dead_name_servers_cost_their_wait_once() -> None:
    async with three_servers(silent, silent, good) as (upstream, asked):
        for _ in range(10):
            assert addresses(await upstream.exchange(QUERY)) == {"10.20.0.10"}
    assert list(map(len, asked)) == [1, 1, 10]


async def test_a_dead_name_server_and_a_failing_one_end_in_the_failure() -> None:
    async with three_servers(silent, failing(dns.rcode.REFUSED), silent) as (upstream, _):
        reply = await upstream.exchange(QUERY)
    assert reply is not None
    assert dns.message.from_wire(reply).rcode() == dns.rcode.REFUSED


async def test_an_answer_is_asked_for_over_tcp_after_silence() -> None:
    async with three_servers(silent, silent, silent, over_tcp=lambda query: respond(query, RECORDS)) as (
        upstream,
        _,
    ):
        assert addresses(await upstream.exchange(QUERY)) == {"10.20.0.10"}


async def test_after_truncation_without_tcp_the_next_name_server_is_asked() -> None:
    async with three_servers(lambda query: [truncated(query)], good, good) as (upstream, _):
        assert addresses(await upstream.exchange(QUERY)) == {"10.20.0.10"}


@pytest.mark.parametrize("asked_for", [65508, 4096, 1232, 512])
async def test_no_name_server_is_told_a_buffer_that_needs_fragments(asked_for: int) -> None:
    query = dns.message.make_query(WIKI, "A", use_edns=0, payload=asked_for).to_wire()
    async with name_server(good) as (endpoint, asked):
        assert addresses(await Upstream(endpoint).exchange(query)) == {"10.20.0.10"}
    sent = dns.message.from_wire(asked[0])
    assert (sent.edns, sent.payload) == (0, min(asked_for, 1232))


@pytest.mark.slow
async def test_an_unanswered_txt_query_delays_only_once() -> None:
    kinds: list[str] = []

    def answer(query: bytes) -> list[bytes]:
        kind = dns.message.from_wire(query).question[0].rdtype.name
        kinds.append(kind)
        return [] if kind == "TXT" else [respond(query, RECORDS)]

    async with name_server(answer) as (endpoint, _):
        upstream = Upstream(endpoint)
        # Silence about everything is not remembered.
        assert not await upstream.ask_mark(WIKI)
        assert kinds == ["TXT"] * 2
        for _ in range(5):
            txt = asyncio.create_task(upstream.ask_mark(WIKI))
            await asyncio.sleep(0)
            assert addresses(await upstream.exchange(QUERY)) == {"10.20.0.10"}
            await txt
        assert kinds.count("TXT") == 4
        upstream.on_roam()
        assert not await upstream.ask_mark(WIKI)
        assert kinds.count("TXT") == 6


async def test_many_addresses_reach_an_asker_that_knows_no_tcp(tmp_path: Path) -> None:
    many = {f"10.20.1.{number}" for number in range(1, 96)}
    records: Records = {("many.example.org", "A"): sorted(many)}

    def over_udp(query: bytes) -> list[bytes]:
        reply = respond(query, records)
        return [truncated(query) if len(reply) > 512 else reply]

    async with (
        name_server(over_udp, lambda query: respond(query, records)) as (endpoint, _),
        running(tmp_path, endpoint) as daemon,
    ):
        listen = daemon.settings.dns_listen
        query = dns.message.make_query("many.example.org", "A")
        short = await dns.asyncquery.udp(query, listen.host, timeout=5, port=listen.port)
        found = addresses(short.to_wire())
        assert len(short.to_wire()) <= 512
        assert short.flags & dns.flags.TC
        assert len(found) > 20
        assert found < many
        whole = await dns.asyncquery.tcp(query, listen.host, timeout=5, port=listen.port)
        assert addresses(whole.to_wire()) == many


@pytest.mark.slow
async def test_a_silent_name_server_is_told_as_such(tmp_path: Path) -> None:
    async with name_server(lambda _: []) as (endpoint, _), running(tmp_path, endpoint) as daemon:
        started = time.monotonic()
        answer = await daemon.ask("www.example.org")
        assert answer.rcode() == dns.rcode.SERVFAIL
        assert time.monotonic() - started < 2.5
        assert b"did not answer" in answer.to_wire()


async def test_garbage_on_the_dns_port_does_not_stop_the_stub(tmp_path: Path) -> None:
    noise = random.Random(1)  # noqa: S311 (noise)
    async with name_server(from_records(RECORDS)) as (endpoint, _), running(tmp_path, endpoint) as daemon:
        listen = daemon.settings.dns_listen
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(500):
                sender.sendto(noise.randbytes(noise.randrange(0, 80)), (listen.host, listen.port))
            for cut in range(len(QUERY)):
                sender.sendto(QUERY[:cut], (listen.host, listen.port))
        for piece in (b"", b"\0", b"\0\0", b"\0\5junk!", b"\xff\xff" + QUERY):
            _, writer = await asyncio.open_connection(listen.host, listen.port)
            writer.write(piece)
            writer.close()
        answer = await daemon.ask(WIKI)
        assert answer.rcode() == dns.rcode.NOERROR
        assert answer.answer


class _Failing:
    """Answers with the query itself, after so many faults."""

    def __init__(self, faults: int, kind: QueryKind) -> None:
        self.faults = faults
        self._kind = kind

    def sort(self, query: bytes) -> Question:
        return Question(self._kind, WIKI)

    def owners(self) -> Collection[int]:
        return ()

    def resolve(self, query: bytes, question: Question, answer: Callable[[bytes | None], None]) -> None:
        self.faults -= 1
        if self.faults >= 0:
            raise RuntimeError("a fault of the resolver")
        answer(query)


@pytest.mark.parametrize("kind", [QueryKind.FORWARD, QueryKind.HOLD])
async def test_a_fault_of_the_resolver_takes_no_place_for_good(
    monkeypatch: pytest.MonkeyPatch, kind: QueryKind
) -> None:
    places = 4
    for name in ("UDP_QUERIES", "WAITING_FOR_TUNNELS"):
        monkeypatch.setattr(listener, name, places)
    for name in ("UDP_RESERVED", "WAITING_RESERVED"):
        monkeypatch.setattr(listener, name, 0)
    loop, faults = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda _, context: faults.append(str(context["exception"])))
    resolver, port = _Failing(2 * places, kind), free_port()
    stub = listener.Listener(resolver, resolver, PLATFORM.senders)
    await stub.open(Endpoint("127.0.0.1", port))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.connect(("127.0.0.1", port))
            async with asyncio.timeout(10):
                for count in range(1, 2 * places + 1):
                    sender.send(QUERY)
                    while len(faults) < count:  # noqa: ASYNC110  there is no event to wait for
                        await asyncio.sleep(0.01)
                sender.send(QUERY)
                assert await loop.sock_recv(sender, 512) == QUERY
    finally:
        await stub.close()
        loop.set_exception_handler(None)
    assert faults == ["a fault of the resolver"] * (2 * places)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_the_kernel_tells_the_uid_of_the_socket_that_asks(
    family: int, host: str, kind: socket.SocketKind
) -> None:
    owner = SocketOwner()
    with socket.socket(family, kind) as own, socket.socket(family, kind) as asker:
        own.bind((host, 0))
        if kind == socket.SOCK_STREAM:
            own.listen()
        asker.connect(own.getsockname())
        ends = asker.getsockname()[:2], own.getsockname()[:2]
        assert owner.uid_of(family, kind, *ends) == os.geteuid()
    if kind == socket.SOCK_DGRAM:
        assert owner.uid_of(family, kind, *ends) is None
    owner.close()
    assert owner.uid_of(family, kind, *ends) is None


ZONE = f"""
wiki A 10.20.0.10
wiki TXT "ipsec-tunneling:yes"
www A 203.0.113.80
big TXT {" ".join(f'"{number:0200}"' for number in range(12))}
"""


@pytest.fixture
def bind(tmp_path: Path) -> Generator[Endpoint]:
    with serving_zones(tmp_path, {"corp.example": ZONE}) as endpoint:
        yield endpoint


@pytest.mark.slow
async def test_bind_is_asked_and_its_answers_pass_untouched(bind: Endpoint, tmp_path: Path) -> None:
    upstream = Upstream(bind)
    assert await upstream.mark(WIKI) == WIKI
    assert not await upstream.mark("www.corp.example")
    assert not await upstream.mark("absent.corp.example")
    async with running(tmp_path, bind) as daemon:
        listen = daemon.settings.dns_listen
        for name, kind in (
            (WIKI, "A"),
            (WIKI, "HTTPS"),
            ("absent.corp.example", "A"),
            ("corp.example", "SOA"),
        ):
            query = dns.message.make_query(name, kind)
            direct = await dns.asyncquery.udp(query, bind.host, timeout=5, port=bind.port)
            through = await dns.asyncquery.udp(query, listen.host, timeout=5, port=listen.port)
            assert through.to_wire() == direct.to_wire()


@pytest.mark.slow
async def test_an_answer_too_long_for_udp_comes_over_tcp_as_from_bind(bind: Endpoint, tmp_path: Path) -> None:
    async with running(tmp_path, bind) as daemon:
        short = await daemon.ask("big.corp.example", "TXT")
        assert short.flags & dns.flags.TC
        whole = await daemon.ask("big.corp.example", "TXT", tcp=True)
        assert whole.answer[0].to_text().count('" "') == 11


# ── addresses with a zone ───────────────────────────────────────────────────────────────────────────────────────────────

# In a network namespace of its own: its link-local address is on the interface culvert-dns0.
SCOPED = """
import asyncio, socket, subprocess, sys
from ipaddress import ip_address
from pathlib import Path
import dns.asyncquery, dns.message
from culvert_client import nat64_reach
from culvert_client.config import Endpoint, load
from culvert_client.core.dns_wire import QueryKind, Question
from culvert_client.ping import Ping, ping
from culvert_client.platform import daemon_platform
from culvert_client.stub.listener import Listener
from culvert_client.stub.upstream import Upstream

for command in ("link set lo up", "link add culvert-dns0 type veth peer name culvert-dns1", "link set culvert-dns0 up",
                "addr add fe80::53/64 dev culvert-dns0 nodad"):
    subprocess.run(["ip", *command.split()], check=True)
QUERY = dns.message.make_query("wiki.corp.example", "A")

class Echo:
    def sort(self, query): return Question(QueryKind.FORWARD)
    def owners(self): return ()
    def resolve(self, query, question, answer):
        answer(dns.message.make_response(dns.message.from_wire(query)).to_wire())

async def main():
    platform = daemon_platform()
    settings = load(platform.paths, ["--dns-listen", "[fe80::53%culvert-dns0]:53"])
    stub = Listener(Echo(), Echo(), platform.senders)
    await stub.open(settings.dns_listen)
    uids = []
    uid_of = stub._uid_of
    stub._uid_of = lambda *them: uids.append(uid_of(*them)) or uids[-1]
    for ask in (dns.asyncquery.udp, dns.asyncquery.tcp):
        await ask(QUERY, "fe80::53%culvert-dns0", timeout=5)
    assert uids == [0, 0], uids
    reply = await Upstream(settings.dns_listen).exchange(QUERY.to_wire())
    assert reply is not None
    assert await Upstream(Endpoint("fe80::53%no-such", 53)).exchange(QUERY.to_wire()) is None
    address = ip_address("fe80::53%culvert-dns0")
    assert nat64_reach.leads_to(address)
    assert not nat64_reach.leads_to(ip_address("fe80::53%no-such"))
    one = Ping(address)
    assert set(await ping(platform.ping_sockets, [one, Ping(ip_address("fe80::53%no-such"))])) == {one}
    await stub.close()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
def test_an_address_with_a_zone_is_listened_on_asked_and_pinged() -> None:
    subprocess.run(["unshare", "--net", sys.executable, "-c", SCOPED], check=True, timeout=60)
