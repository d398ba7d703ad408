"""Resources in Postgres → the updater → records in BIND, Knot and PowerDNS: all real."""

from __future__ import annotations

from pathlib import Path

import pytest
from culvert_db import DnsState, DnsZone
from culvert_dns_updater.desired import Names
from culvert_dns_updater.keeper import Outcome
from culvert_dns_updater.records import ZoneContent
from culvert_dns_updater.zone import Zone
from sqlalchemy import update

from .name_server import ZONE, BindWithViews, NameServer
from .world import World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WIKI = "wiki.corp.example"
MAIL = "mail.corp.example"
MARK = ['"ipsec-tunneling:yes"']


async def test_a_resource_is_published_moved_and_withdrawn(world: World, any_server: NameServer) -> None:
    await world.publish_to(any_server, ttl=17)
    await world.put({WIKI: "10.20.0.10"})
    async with world.updater(any_server) as updater:
        assert await updater.run_once() is Outcome.LIVE
        assert any_server.lookup(WIKI, "A") == ["10.20.0.10"]
        assert any_server.lookup(WIKI, "TXT") == MARK
        assert any_server.ttls(WIKI, "A") == any_server.ttls(WIKI, "TXT") == {17}
        states = {key: row.state for key, row in (await world.records()).items()}
        assert states == {(WIKI, "A"): DnsState.LIVE, (WIKI, "TXT"): DnsState.LIVE}
        first = await world.status()
        assert (first.state, first.behind_since, first.failures) == (DnsState.LIVE, None, 0)

        async with world.database.begin() as session:
            await session.execute(update(DnsZone).values(ttl=23))
        assert await updater.run_once() is Outcome.LIVE
        assert any_server.ttls(WIKI, "A") == any_server.ttls(WIKI, "TXT") == {23}

        await world.put({WIKI: "2001:db8::10"})
        assert await updater.run_once() is Outcome.LIVE
        assert any_server.lookup(WIKI, "A") == []
        assert any_server.lookup(WIKI, "AAAA") == ["2001:db8::10"]
        assert set(await world.records()) == {(WIKI, "AAAA"), (WIKI, "TXT")}
        assert ((await world.status()).serial or 0) > (first.serial or 0)

        await world.delete([WIKI])
        assert await updater.run_once() is Outcome.LIVE
    for name, rtype in [(WIKI, "AAAA"), (WIKI, "TXT"), (f"_culvert-owner.{WIKI}", "TXT")]:
        assert any_server.lookup(name, rtype) == []
    assert await world.records() == {}
    assert any_server.lookup(MAIL, "A") == ["192.0.2.25"]


async def test_foreign_names_in_a_large_change_are_kept_and_delay_nothing(
    world: World, any_server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record was there before; another comes between our reading and our writing."""
    transfer = Zone._transfer

    async def slow_transfer(zone: Zone, address: str, desired: Names) -> tuple[ZoneContent, int]:
        found = await transfer(zone, address, desired)
        monkeypatch.setattr(Zone, "_transfer", transfer)
        any_server.edit(("host-7.corp.example", "A", "192.0.2.99"))
        return found

    monkeypatch.setattr(Zone, "_transfer", slow_transfer)
    await world.publish_to(any_server)
    hosts = {f"host-{i}.corp.example": f"10.20.1.{i}" for i in range(20)}
    await world.put(hosts | {MAIL: "10.20.0.25"})
    async with world.updater(any_server) as updater:
        assert await updater.run_once() is Outcome.INCOMPLETE
        assert any_server.lookup(MAIL, "A") == ["192.0.2.25"]
        assert any_server.lookup(MAIL, "TXT") == ['"kept by hand"']
        assert any_server.lookup("host-7.corp.example", "A") == ["192.0.2.99"]
        assert any_server.lookup("host-8.corp.example", "A") == ["10.20.1.8"]
        assert any_server.lookup("host-8.corp.example", "TXT") == MARK
        states = {name: row for (name, rtype), row in (await world.records()).items() if rtype == "A"}
        foreign = {name for name, row in states.items() if row.state is DnsState.FOREIGN}
        assert foreign == {MAIL, "host-7.corp.example"}
        assert (states[MAIL].reason, states[MAIL].attempts) == ("DNS_RECORD_FOREIGN", 1)
        assert "does not own: A, TXT." in (states[MAIL].message or "")
        assert "Delete these in the zone" in (states[MAIL].remedy or "")
        assert (states[MAIL].wanted, states[MAIL].found) == (["10.20.0.25"], ["192.0.2.25"])
        text = (await world.records())[MAIL, "TXT"]
        assert (text.wanted, text.found) == (MARK, ['"kept by hand"'])
        live = states["host-8.corp.example"]
        assert (live.state, live.wanted, live.found) == (DnsState.LIVE, None, None)
        assert (await world.status()).state is DnsState.FOREIGN

        await world.delete([*hosts, MAIL])
        assert await updater.run_once() is Outcome.LIVE
    assert any_server.lookup(MAIL, "A") == ["192.0.2.25"]
    assert any_server.lookup("host-7.corp.example", "A") == ["192.0.2.99"]
    assert any_server.lookup("host-8.corp.example", "TXT") == []


async def test_a_zone_that_was_changed_or_lost_is_made_right_again(
    world: World, any_server: NameServer
) -> None:
    await world.publish_to(any_server)
    await world.put({WIKI: "10.20.0.10", "git.corp.example": "10.20.0.11"})
    async with world.updater(any_server) as updater:
        await updater.run_once()
        by_hand = [
            (WIKI, "A", "192.0.2.1"),
            (WIKI, "MX", f"10 {MAIL}."),
            ("new.corp.example", "A", "192.0.2.2"),
        ]
        any_server.edit(*by_hand, delete=[("git.corp.example", "TXT")])
        assert await updater.run_once() is Outcome.LIVE
        assert any_server.lookup(WIKI, "A") == ["10.20.0.10"]
        assert any_server.lookup(WIKI, "MX") == [f"10 {MAIL}."]
        assert any_server.lookup("git.corp.example", "TXT") == MARK
        assert any_server.lookup("new.corp.example", "A") == ["192.0.2.2"]

        any_server.stop()
        any_server.reset()
        any_server.configure(updates=True)
        any_server.start()
        assert any_server.lookup(WIKI, "A") == []
        assert await updater.run_once() is Outcome.LIVE
    assert any_server.lookup(WIKI, "A") == ["10.20.0.10"]
    assert any_server.lookup(MAIL, "A") == ["192.0.2.25"]


async def test_a_refused_update_is_told_and_tried_again(world: World, any_server: NameServer) -> None:
    """The key may transfer the zone but not change it."""
    any_server.stop()
    any_server.configure(updates=False)
    any_server.start()
    await world.publish_to(any_server)
    await world.put({WIKI: "10.20.0.10"})
    async with world.updater(any_server) as updater:
        assert await updater.run_once() is Outcome.FAILED
        row = (await world.records())[WIKI, "TXT"]
        assert (row.state, row.reason) == (DnsState.REFUSED, "DNS_UPDATE_REFUSED")
        status = await world.status()
        assert (status.state, status.failures) == (DnsState.REFUSED, 1)
        assert status.behind_since is not None

        any_server.stop()
        any_server.configure(updates=True)
        any_server.start()
        assert await updater.run_once() is Outcome.LIVE
    assert (await world.status()).behind_since is None


async def test_a_wrong_key_is_said_and_a_right_one_needs_no_restart(
    world: World, any_server: NameServer
) -> None:
    await world.publish_to(any_server)
    await world.put({WIKI: "10.20.0.10"})
    right = any_server.spoil_key()
    async with world.updater(any_server) as updater:
        assert await updater.run_once() is Outcome.FAILED
        row = (await world.records())[WIKI, "A"]
        assert (row.state, row.reason, row.attempts) == (DnsState.REFUSED, "DNS_TRANSFER_REFUSED", 1)
        assert "key" in (row.message or "")
        # The zone's contents are unknown.
        assert (row.wanted, row.found) == (["10.20.0.10"], None)

        any_server.key_file.chmod(0o644)
        assert await updater.run_once() is Outcome.FAILED
        row = (await world.records())[WIKI, "A"]
        assert (row.state, row.reason, row.attempts) == (DnsState.REFUSED, "DNS_KEY_UNUSABLE", 2)
        any_server.key_file.chmod(0o600)

        any_server.key_file.write_text(right)
        assert await updater.run_once() is Outcome.LIVE
    row = (await world.records())[WIKI, "A"]
    assert (row.state, row.reason, row.message, row.attempts) == (DnsState.LIVE, None, None, 0)


async def test_only_the_view_of_the_key_is_written(world: World, tmp_path: Path) -> None:
    bind = BindWithViews(tmp_path / "named")
    bind.start()
    try:
        await world.publish_to(bind, view="inside")
        await world.put({WIKI: "10.20.0.10"})
        before = bind.lookup(ZONE, "SOA")
        async with world.updater(bind) as updater:
            assert await updater.run_once() is Outcome.LIVE
            assert bind.lookup(WIKI, "A", signed=True) == ["10.20.0.10"]
            assert bind.lookup(WIKI, "TXT", signed=True) == MARK
            assert bind.lookup(WIKI, "A") == []
            assert bind.lookup(ZONE, "SOA", signed=True) != before
            await world.delete([WIKI])
            assert await updater.run_once() is Outcome.LIVE
        assert bind.lookup(WIKI, "A", signed=True) == []
        assert bind.lookup(ZONE, "SOA") == before
    finally:
        bind.stop()
