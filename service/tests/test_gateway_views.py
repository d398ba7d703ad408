"""REST shows a gateway's entries beside the desired ones, their counters, and recent drops."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from culvert_db import Gateway, GatewayLease, GatewaySample
from culvert_service.gateways import repository
from finsy.proto import p4r
from sqlalchemy import delete, func, select, update

from .conftest import World, until
from .switch import Switch

pytestmark = pytest.mark.slow


async def test_entries_show_drift_and_counters(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    await device.open()
    switch.hit("spd_in")
    found = await world.rest("GET", "/gateways/gw-berlin/entries")
    assert {it["standing"] for it in found["entries"]} == {"held"}
    assert {it["table"]: (it["packets"], it["bytes"]) for it in found["entries"] if it["packets"]} == {
        "spd_in": (1, 100)
    }
    assert {it["table"] for it in found["entries"] if it["packets"] is None} >= {"route", "nexthop"}
    assert (await world.rest("GET", "/gateways/gw-berlin"))["version"] == "1.4.0"

    route = switch.table("route")
    gone = next(key for key in switch.entries if key[0] == route)
    stranger = p4r.TableEntry()
    stranger.CopyFrom(switch.entries.pop(gone))
    stranger.match[0].lpm.value, stranger.match[0].lpm.prefix_len = b"\1" * 16, 128
    switch.entries[route, b"stranger", 0] = stranger
    found = await world.rest("GET", "/gateways/gw-berlin/entries")
    drifted = [(it["table"], it["standing"]) for it in found["entries"] if it["standing"] != "held"]
    assert sorted(drifted) == [("route", "foreign"), ("route", "missing")]
    assert found["count"] == len(found["entries"]) - 1


async def test_samples_are_kept_for_a_day_and_thinned_out_for_long_ranges(
    world: World, switch: Switch
) -> None:
    assert await world.rest("GET", "/gateways/gw-berlin/samples") == []
    switch.drops = {8: 3, 7: 12, 0: 4}
    found = await until(
        lambda: world.rest("GET", "/gateways/gw-berlin/samples"),
        lambda it: bool(it) and it[-1]["drops"] == {"icv": 3, "replay": 12},
    )
    # Most probes wait behind other work; the quickest tells the round trip.
    switch.slow_after = 3
    before = len(found)
    found = await until(lambda: world.rest("GET", "/gateways/gw-berlin/samples"), lambda it: len(it) > before)
    assert switch.slow_after < -3
    assert 0 < found[-1]["round_trip_us"] < 200_000

    async with world.database.begin() as session:
        aged = GatewaySample.at - datetime.timedelta(hours=25)
        await session.execute(update(GatewaySample).values(at=aged))
        number = await session.scalar(select(Gateway.id))
        now = await session.scalar(select(func.now()))
        assert number
        assert now
        for second in range(0, 20_000, 10):
            at = now - datetime.timedelta(seconds=second)
            session.add(GatewaySample(gateway_id=number, at=at, drops={"icv": 20_000 - second}))
    found = await world.rest("GET", "/gateways/gw-berlin/samples?hours=24")
    assert 150 < len(found) < 180
    assert [it["at"] for it in found] == sorted(it["at"] for it in found)
    assert len(await world.rest("GET", "/gateways/gw-berlin/samples")) < 260
    # The next sample makes those go that are older than a day.
    await until(lambda: _oldest(world), lambda it: now - it < datetime.timedelta(hours=24))


async def test_samples_have_the_mean_rates_of_the_lease_alone(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    await device.open()

    def hit(it: list[dict[str, Any]]) -> bool:
        switch.hit("spd_in")
        return bool(it) and it[-1]["received"] > 0

    found = await until(lambda: world.rest("GET", "/gateways/gw-berlin/samples"), hit)
    assert (found[-1]["sent"], found[-1]["tunnels"]) == (0, 1)

    async with world.database.begin() as session:
        await session.execute(delete(GatewaySample))
        [(number, epoch)] = await session.execute(select(GatewayLease.gateway_id, GatewayLease.epoch))
        sample = {"gateway": number, "drops": "{}", "round_trip_us": None}
        # Another controller has the gateway by now, or had it before: its bytes are not counted twice.
        for of, received, seconds in (
            (epoch, 3000, 10.0),
            (epoch - 1, 9999, 1.0),
            (epoch, 0, 0.0),
            (epoch, 1000, 30.0),
        ):
            row = sample | {"epoch": of, "received": received, "sent": 10, "seconds": seconds}
            lost = row | {"epoch": epoch - 1, "round_trip_us": 5}
            await repository.add_samples(session, [row, lost])
            await session.execute(
                update(GatewaySample).values(at=GatewaySample.at - datetime.timedelta(milliseconds=1))
            )
        hour = await repository.samples(session, number, 24)
        await session.rollback()
    assert [(float(it.received or 0), float(it.sent or 0)) for it in hour] == [(100.0, 0.8)]


async def _oldest(world: World) -> datetime.datetime:
    async with world.database() as session:
        return (await session.scalars(select(func.min(GatewaySample.at)))).one()
