"""Faults between Postgres, updaters and BIND, provoked for real. In the end the zone equals the resources."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import pytest
from culvert_db import Database, DnsState, DnsZone, bind_database, create_engine, dns_role, upgrade
from culvert_db.embedded import EmbeddedPostgres
from culvert_dns_updater.keeper import Outcome
from culvert_dns_updater.records import TUNNEL_MARK
from sqlalchemy import select, update

from .name_server import ZONE, Bind
from .world import PASSWORD, World, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WIKI = "wiki.corp.example"
MAIL = "mail.corp.example"
# The library of Debian's package faketime; the loader puts the machine's own library directory in place of $LIB.
FAKETIME = "/usr/$LIB/faketime/libfaketime.so.1"


@pytest.fixture
async def wiki(world: World, bind: Bind) -> World:
    """A zone and a resource that is not published yet."""
    await world.publish_to(bind)
    await world.put({WIKI: "10.20.0.10"})
    return world


async def test_a_change_is_published_at_once(wiki: World, bind: Bind) -> None:
    async with wiki.running(bind):
        await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.10"])
        await asyncio.sleep(1)
        await wiki.put({WIKI: "10.20.0.11"})
        await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.11"], seconds=20)


async def test_a_server_that_does_not_answer_is_caught_up_with(wiki: World, bind: Bind) -> None:
    bind.freeze()
    async with wiki.updater(bind, patience=0.5) as updater:
        assert await updater.run_once() is Outcome.FAILED
        row = (await wiki.records())[WIKI, "A"]
        assert (row.state, row.reason) == (DnsState.UNREACHABLE, "DNS_UPDATE_UNREACHABLE")
    bind.stop(signal.SIGKILL)
    async with wiki.running(bind):
        await asyncio.sleep(1)
        assert (await wiki.status()).state is DnsState.UNREACHABLE
        bind.start()
        await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.10"])


async def test_a_failing_server_is_reported_and_caught_up_with(wiki: World, bind: Bind) -> None:
    """The server cannot write its journal: SERVFAIL."""
    bind.stop()
    bind.configure(updates=True, journal="no-such-directory/journal")
    bind.start()
    async with wiki.updater(bind) as updater:
        assert await updater.run_once() is Outcome.FAILED
        row = (await wiki.records())[WIKI, "A"]
        assert (row.state, row.reason) == (DnsState.REFUSED, "DNS_UPDATE_FAILED")
        assert "SERVFAIL" in (row.message or "")
        assert "TSIG key" not in (row.remedy or "")
        bind.stop()
        bind.configure(updates=True)
        bind.start()
        assert await updater.run_once() is Outcome.LIVE


async def test_a_failed_replacement_lists_wanted_and_found_values(wiki: World, bind: Bind) -> None:
    async with wiki.updater(bind) as updater:
        assert await updater.run_once() is Outcome.LIVE
        bind.stop()
        bind.configure(updates=False)
        bind.start()
        await wiki.put({WIKI: "2001:db8::10"})
        assert await updater.run_once() is Outcome.FAILED
    found = {rtype: (row.wanted, row.found) for (_, rtype), row in (await wiki.records()).items()}
    mark = [TUNNEL_MARK]
    assert found == {"A": ([], ["10.20.0.10"]), "AAAA": (["2001:db8::10"], []), "TXT": (mark, mark)}


async def test_a_wrong_clock_is_reported(wiki: World, bind: Bind) -> None:
    wrong = {"LD_PRELOAD": FAKETIME, "FAKETIME": "-20m", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    assert await (await wiki.daemon(bind, "once", **wrong)).wait() == 1
    row = (await wiki.records())[WIKI, "A"]
    assert (row.state, row.reason) == (DnsState.REFUSED, "DNS_CLOCK_WRONG")
    assert "its clock and ours differ by more than 5 minutes" in (row.message or "")
    assert await (await wiki.daemon(bind, "once")).wait() == 0


async def test_a_change_waits_out_the_backoff_and_a_corrected_zone_does_not(wiki: World, bind: Bind) -> None:
    async with wiki.database.begin() as session:
        await session.execute(update(DnsZone).values(port=1))
    async with wiki.running(bind):
        async with asyncio.timeout(60):
            while (await wiki.records()).get((WIKI, "A")) is None or (await wiki.status()).failures < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        before = (await wiki.status()).failures
        for last in range(20):
            await wiki.put({WIKI: f"10.20.0.{last}"})
        assert (await wiki.status()).failures <= before + 1
        async with wiki.database.begin() as session:
            await session.execute(update(DnsZone).values(port=bind.port))
        await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.19"], seconds=20)


async def test_a_name_that_no_zone_publishes_is_reported(world: World, bind: Bind) -> None:
    await world.put({"wiki.other.example": "10.20.0.10"})
    async with world.updater(bind) as updater:
        assert await updater.run_once() is Outcome.INCOMPLETE
        row = (await world.records())["wiki.other.example", "A"]
        assert (row.zone, row.state, row.reason) == ("", DnsState.REFUSED, "DNS_ZONE_MISSING")
        await world.delete(["wiki.other.example"])
        assert await updater.run_once() is Outcome.LIVE
    assert await world.records() == {}


async def test_a_zone_that_retires_takes_its_records_along(wiki: World, bind: Bind) -> None:
    async with wiki.updater(bind) as updater:
        await updater.run_once()
        async with wiki.database.begin() as session:
            await session.execute(update(DnsZone).values(retiring=True))
        await updater.run_once()
    assert bind.lookup(WIKI, "A") == []
    assert bind.lookup(MAIL, "A") == ["192.0.2.25"]
    async with wiki.database() as session:
        assert (await session.scalars(select(DnsZone))).all() == []


async def test_a_zone_has_one_updater_and_another_takes_over_from_a_killed_one(
    wiki: World, bind: Bind
) -> None:
    first = await wiki.daemon(bind)
    await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.10"])
    holder = await wiki.holder()
    second = await wiki.daemon(bind)
    try:
        await asyncio.sleep(4)  # longer than a lease
        assert await wiki.holder() == holder
        async with wiki.updater(bind) as third:
            assert await third.run_once() is Outcome.INCOMPLETE
        first.kill()
        await first.wait()
        await wiki.put({WIKI: "10.20.0.11"})
        await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.11"])
        assert await wiki.holder() != holder
    finally:
        second.terminate()
        assert await second.wait() == 0
    # The updater released the zone: nobody has to wait.
    async with wiki.updater(bind) as fourth:
        assert await fourth.run_once() is Outcome.LIVE
    assert bind.secret not in wiki.log()


@pytest.mark.long
async def test_an_updater_killed_amid_a_large_change_leaves_nothing_half_done(
    world: World, bind: Bind
) -> None:
    """kill -9 at five moments, each somewhere in the change of 600 names."""
    await world.publish_to(bind)
    seed = random.Random(6)  # noqa: S311
    hosts = {f"host-{i}.corp.example" for i in range(600)}
    for round_ in range(5):
        await world.put(dict.fromkeys(hosts, f"10.2{round_}.0.1"))
        daemon = await world.daemon(bind)
        first = [f"10.2{round_}.0.1"]
        await until(lambda first=first: bind.lookup("host-0.corp.example", "A") == first)
        await world.put(dict.fromkeys(hosts, f"10.3{round_}.0.1"))
        await asyncio.sleep(seed.uniform(0, 2))
        daemon.kill()
        await daemon.wait()
        # The lease of the one that was killed.
        await asyncio.sleep(3)
    gone = {f"host-{i}.corp.example" for i in range(0, 600, 2)}
    await world.delete(gone)
    async with world.updater(bind) as updater:
        assert await updater.run_once() is Outcome.LIVE
        assert await updater.run_once() is Outcome.LIVE
    assert {name for name in hosts if bind.lookup(name, "A") == ["10.34.0.1"]} == hosts - gone
    assert not any(bind.lookup(name, "TXT") for name in gone)
    assert bind.lookup(MAIL, "TXT") == ['"kept by hand"']


async def test_the_command_line_makes_one_pass_and_exits_with_its_outcome(wiki: World, bind: Bind) -> None:
    async def once() -> int:
        return await (await wiki.daemon(bind, "once")).wait()

    assert await once() == 0
    assert bind.lookup(WIKI, "A") == ["10.20.0.10"]
    bind.stop()
    assert await once() == 1
    bind.key_file.unlink()
    assert await once() == 1
    assert "cannot be read" in wiki.log()
    away = {"CULVERT_DNS_DATABASE_URL": "postgresql://culvert:hunter2@127.0.0.1:1/culvert"}
    assert await (await wiki.daemon(bind, "once", **away)).wait() == 3
    assert "hunter2" not in wiki.log()


async def test_changes_are_published_after_a_database_outage(bind: Bind, tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "pg")
    async with postgres as url:
        engine = create_engine(url)
        await upgrade(engine)
        await dns_role.prepare(engine, url, PASSWORD)
        database: Database = bind_database(engine)
        world = World(url, database, tmp_path)
        await world.publish_to(bind)
        async with world.running(bind):
            await world.put({WIKI: "10.20.0.9"})
            await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.9"])
            await engine.dispose()
            await postgres.stop()
            await asyncio.sleep(1)
            await postgres.start()
            await world.put({WIKI: "10.20.0.10"})
            await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.10"])
        await engine.dispose()


async def test_two_views_of_one_origin_are_kept_apart(world: World, bind: Bind, tmp_path: Path) -> None:
    """Here each view is a server of its own; which one a key leads to is the server's affair."""
    outside = Bind(tmp_path / "outside")
    outside.start()
    try:
        outside.key_file.rename(bind.key_dir / "outside.key")
        await world.publish_to(bind, "inside", view="inside")
        await world.publish_to(outside, "outside", view="outside", key="outside", all_resources=False)
        await world.put({WIKI: "10.20.0.10"})
        async with world.updater(bind) as updater:
            assert await updater.run_once() is Outcome.LIVE
        assert bind.lookup(WIKI, "A") == ["10.20.0.10"]
        assert outside.lookup(WIKI, "A") == []
        assert outside.lookup(ZONE, "NS") == [f"ns.{ZONE}."]
    finally:
        outside.stop()
