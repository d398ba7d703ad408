"""Tunnels on the controller's side: a device over mTLS, Postgres, and a switch that can be made to fail."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from culvert_db import SecurityAssociation
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason
from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.link import Link
from culvert_service.tunnels import repository
from culvert_service.tunnels.restoring import Restoring
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from .conftest import (
    Device,
    World,
    next_event,
    profile_that,
    refused,
    running,
    serving,
    settings_in,
    until,
)
from .switch import Switch

pytestmark = pytest.mark.slow

WIKI = "wiki.corp.example"


async def tunnel_entries(world: World) -> int:
    return int((await world.rest("GET", "/gateways/gw-berlin/entries"))["tunnel_entries"])


async def tunnels(world: World) -> list[dict[str, object]]:
    return list(await world.rest("GET", "/tunnels"))


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


async def test_open_programs_the_gateway_and_answers(world: World, device: Device) -> None:
    opened = await device.open("WIKI.corp.example.")
    tunnel, sas = opened.tunnel, opened.sas
    assert (tunnel.fqdn, tunnel.gateway.name) == (WIKI, "gw-berlin")
    assert (tunnel.inner_address, list(tunnel.remote_prefixes)) == ("10.99.1.1", ["10.20.0.10/32"])
    assert (tunnel.outer_address, tunnel.outer_port) == ("198.51.100.1", 4500)
    assert len(sas.inbound.key) == len(sas.outbound.key) == 36
    assert min(sas.inbound.spi, sas.outbound.spi) >= 256
    assert 0 < opened.decided_us < opened.programmed_us
    assert await tunnel_entries(world) == 5


async def test_a_new_tunnel_is_one_write_and_new_keys_come_before_their_use(
    device: Device, switch: Switch
) -> None:
    before = len(switch.writes)
    await device.open()
    await device.open()
    tables = [[u.entity.table_entry.table_id for u in write.updates] for write in switch.writes[before:]]
    pair = ["sad_in", "spd_in", "sad_out"]
    policy = ["spd_out", "spd_out"]
    written = [[switch.table(name) for name in batch] for batch in ([*pair, *policy], pair, policy)]
    assert tables == written


async def test_equal_requests_at_once_share_one_tunnel_and_one_pair(world: World, device: Device) -> None:
    answers = await asyncio.gather(*(device.open() for _ in range(5)))
    assert len({answer.tunnel.tunnel_id for answer in answers}) == 1
    assert len({answer.sas.inbound.key for answer in answers}) == 1
    assert (len(await tunnels(world)), await tunnel_entries(world)) == (1, 5)


async def test_a_late_copy_of_a_click_gets_its_keys_and_the_next_click_others(
    world: World, device: Device
) -> None:
    first, copy = [await device.open(attempt=b"a click") for _ in range(2)]
    assert (copy.tunnel, copy.sas) == (first.tunnel, first.sas)
    fresh = await device.open(attempt=b"another")
    assert fresh.sas.generation > first.sas.generation
    # The keys of the first click are gone: a copy that comes now must not get them.
    last = await device.open(attempt=b"a click")
    assert last.sas.generation > fresh.sas.generation
    await device.close(last.tunnel.tunnel_id)
    assert (await device.open(attempt=b"a click")).tunnel.tunnel_id != last.tunnel.tunnel_id


async def test_many_devices_at_once_get_addresses_and_numbers_of_their_own(
    world: World, device: Device
) -> None:
    others = [await world.enrol() for _ in range(8)]
    await asyncio.gather(*(other.prove() for other in others))
    answers = await asyncio.gather(*(one.open() for one in [device, *others]))
    assert len({answer.tunnel.inner_address for answer in answers}) == 9
    assert len({answer.sas.outbound.spi for answer in answers}) == 9
    assert await tunnel_entries(world) == 45


async def test_an_open_tunnel_that_is_opened_again_gets_fresh_keys(world: World, device: Device) -> None:
    first = await device.open()
    second = await device.open()
    assert second.tunnel.tunnel_id == first.tunnel.tunnel_id
    assert second.sas.generation > first.sas.generation
    assert second.sas.inbound.key != first.sas.inbound.key
    assert await tunnel_entries(world) == 8
    await until(lambda: tunnel_entries(world), lambda count: count == 5)


async def test_rekey_is_make_before_break(world: World, device: Device, switch: Switch) -> None:
    opened = await device.open()
    tunnel_id, old = opened.tunnel.tunnel_id, opened.sas
    new = await device.renew(tunnel_id, old.generation)
    assert new.generation == old.generation + 1
    assert {new.inbound.spi, new.inbound.key}.isdisjoint({old.inbound.spi, old.inbound.key})
    assert await tunnel_entries(world) == 8
    await device.activate(tunnel_id, new.generation)
    await device.activate(tunnel_id, new.generation)
    assert await tunnel_entries(world) == 8
    await until(lambda: tunnel_entries(world), lambda count: count == 5)
    assert (await refused(device.renew(tunnel_id, old.generation))).reason is Reason.GENERATION_STALE
    assert (await refused(device.activate(tunnel_id, old.generation))).reason is Reason.GENERATION_STALE


async def test_a_renewal_whose_answer_was_lost_can_be_asked_again(world: World, device: Device) -> None:
    opened = await device.open()
    tunnel_id, generation = opened.tunnel.tunnel_id, opened.sas.generation
    lost = await device.renew(tunnel_id, generation)
    again = await device.renew(tunnel_id, generation)
    assert again.generation > lost.generation
    await until(lambda: tunnel_entries(world), lambda count: count == 8)
    assert (await refused(device.activate(tunnel_id, lost.generation))).reason is Reason.GENERATION_STALE
    await device.activate(tunnel_id, again.generation)


async def test_renewals_at_once_each_get_a_pair_and_the_last_counts(world: World, device: Device) -> None:
    opened = await device.open()
    tunnel_id = opened.tunnel.tunnel_id
    renewed = await asyncio.gather(*(device.renew(tunnel_id, opened.sas.generation) for _ in range(4)))
    assert sorted(pair.generation for pair in renewed) == [2, 3, 4, 5]
    assert await tunnel_entries(world) == 8
    await device.activate(tunnel_id, 5)


async def test_close_clears_the_gateway_and_is_idempotent(world: World, device: Device) -> None:
    tunnel_id = (await device.open()).tunnel.tunnel_id
    await device.renew(tunnel_id, 1)
    await device.close(tunnel_id)
    await device.close(tunnel_id)
    assert (await tunnels(world), await tunnel_entries(world)) == ([], 0)
    assert (await device.open()).tunnel.inner_address == "10.99.1.1"


async def test_another_devices_tunnel_is_unknown(world: World, device: Device) -> None:
    tunnel_id = (await device.open()).tunnel.tunnel_id
    thief = await world.enrol()
    for call in (thief.renew(tunnel_id, 1), thief.activate(tunnel_id, 1), thief.close(tunnel_id)):
        assert (await refused(call)).reason is Reason.TUNNEL_UNKNOWN
    assert len(await tunnels(world)) == 1


async def test_refusals_say_why_and_whom_to_ask(world: World, switch: Switch) -> None:
    await world.rest("POST", "/users", {"name": "eve", "email": "eve@corp.example"})
    eve, alice = await world.enrol("eve"), await world.enrol()
    denied = await refused(eve.open())
    assert denied.reason is Reason.NO_POLICY
    assert "eve" in denied.message
    assert "bob@corp.example" in denied.remedy
    assert (await refused(alice.open("nowhere.corp.example"))).reason is Reason.NAME_UNKNOWN
    assert (await refused(alice.open())).reason is Reason.CODE_NEEDED
    assert (await tunnels(world), await tunnel_entries(world)) == ([], 0)


async def test_a_refused_write_is_undone_and_a_retry_works(
    world: World, device: Device, switch: Switch
) -> None:
    switch.refuse_table = switch.table("spd_out")  # the last of the four
    error = await refused(device.open())
    assert error.reason is Reason.GATEWAY_REFUSED
    assert "RESOURCE_EXHAUSTED" in error.message
    assert (await tunnels(world), await tunnel_entries(world)) == ([], 0)
    switch.refuse_table = None
    await device.open()
    assert await tunnel_entries(world) == 5


async def test_a_refused_renewal_and_a_refused_switch_leave_the_pair_in_use(
    world: World, device: Device, switch: Switch
) -> None:
    opened = await device.open()
    tunnel_id, first = opened.tunnel.tunnel_id, opened.sas.generation
    entries = dict(switch.entries)
    switch.refuse_table = switch.table("sad_out")  # the last of the three
    assert (await refused(device.renew(tunnel_id, first))).reason is Reason.GATEWAY_REFUSED
    assert switch.entries == entries
    switch.refuse_table = None
    renewed = await device.renew(tunnel_id, first)
    both = dict(switch.entries)
    switch.refuse_table = switch.table("spd_out")
    assert (await refused(device.activate(tunnel_id, renewed.generation))).reason is Reason.GATEWAY_REFUSED
    assert switch.entries == both
    switch.refuse_table = None
    await device.activate(tunnel_id, renewed.generation)
    await until(lambda: tunnel_entries(world), lambda count: count == 5)


async def test_a_gateway_that_does_not_answer_fails_soon_and_leaves_nothing(
    world: World, device: Device, switch: Switch
) -> None:
    switch.silent = True
    async with asyncio.timeout(10):
        assert (await refused(device.open())).reason is Reason.GATEWAY_DOWN
    assert await tunnels(world) == []
    assert (await world.rest("GET", "/gateways/gw-berlin"))["reason"]
    assert (await refused(device.open())).reason is Reason.GATEWAY_DOWN
    switch.silent = False
    await world.online("gw-berlin")
    await device.open()
    assert await tunnel_entries(world) == 5


async def test_a_link_that_ends_ends_the_calls_that_wait_for_it(
    world: World, device: Device, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("culvert_service.gateways.link.WRITE_SECONDS", 60.0)
    monkeypatch.setattr("culvert_service.gateways.link._PROBE_SECONDS", 0.1)
    switch.silent = True
    async with asyncio.timeout(30):
        assert (await refused(device.open())).reason is Reason.GATEWAY_DOWN
    assert await tunnels(world) == []


async def test_the_next_gateway_is_tried(world: World, device: Device, switch: Switch) -> None:
    port, spare = free_port(), Switch()
    await world.add_gateway("gw-paris", port, number=2)
    await world.rest("DELETE", "/resources/wiki")
    await world.add_wiki(["gw-berlin", "gw-paris"])
    async with serving(world, spare, "gw-paris", port):
        await world.online("gw-paris")
        switch.silent = True
        opened = await device.open()
        assert (opened.tunnel.gateway.name, opened.tunnel.inner_address) == ("gw-paris", "10.99.2.1")
        switch.silent = False
        await world.online("gw-berlin")
        # The tunnel stays on its gateway, unless the person chooses another.
        assert (await device.open()).tunnel.gateway.name == "gw-paris"
        assert (await device.open(gateway="gw-berlin")).tunnel.gateway.name == "gw-berlin"
        assert len(await tunnels(world)) == 1
        found = await until(
            lambda: world.rest("GET", "/gateways/gw-paris/entries"), lambda e: not e["tunnel_entries"]
        )
        assert found["count"] > 0


async def forgets(world: World, switch: Switch) -> None:
    """As a gateway that restarts."""
    switch.forget()
    switch.silent = True
    await world.online("gw-berlin", wanted="offline")
    switch.silent = False
    await world.online("gw-berlin")


async def test_a_gateway_that_lost_its_state_is_filled_and_fresh_keys_wait(
    world: World, device: Device, switch: Switch
) -> None:
    events = device.watch()
    await next_event(events, "profile")
    opened = await device.open()
    await device.renew(opened.tunnel.tunnel_id, 1)
    before = set(switch.entries)
    await forgets(world, switch)
    closed = (await next_event(events, "tunnel_closed")).tunnel_closed
    assert (closed.tunnel_id, closed.why.reason) == (opened.tunnel.tunnel_id, int(Reason.SA_LOST))
    # The pair that was renewed for nobody is not there again, and the SPI of the other is new.
    assert (await tunnel_entries(world), len(set(switch.entries) & before)) == (5, len(before) - 4)
    writes = len(switch.writes)
    restored = await device.open()
    assert (restored.tunnel.tunnel_id, restored.sas.generation) == (opened.tunnel.tunnel_id, 3)
    assert len({opened.sas.inbound.key, restored.sas.inbound.key}) == 2
    assert len(switch.writes) == writes
    # Keys are handed out once.
    again = await device.open()
    assert (again.sas.generation, len(switch.writes)) == (4, writes + 2)
    # A stream that begins hears of it again: these keys are not meant.
    late = (await next_event(device.watch(), "tunnel_closed")).tunnel_closed
    assert (late.tunnel_id, late.last_generation) == (opened.tunnel.tunnel_id, 2)


@pytest.fixture
def restoring_goes_on(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Until it is set, lost tunnels stay without fresh keys."""
    restore, goes_on = Restoring.restore, asyncio.Event()

    async def restore_later(restoring: Restoring, link: Link, lost: Sequence[DesiredTunnel]) -> None:
        await goes_on.wait()
        await restore(restoring, link, lost)

    monkeypatch.setattr(Restoring, "restore", restore_later)
    return goes_on


async def test_a_lost_tunnel_opens_before_its_fresh_keys_are_written(
    world: World, device: Device, switch: Switch, restoring_goes_on: asyncio.Event
) -> None:
    lost = await device.open()
    await forgets(world, switch)
    opened = await device.open()
    assert opened.tunnel.tunnel_id != lost.tunnel.tunnel_id
    restoring_goes_on.set()
    await until(lambda: tunnel_entries(world), lambda count: count == 5)
    again = await device.open()
    assert (again.tunnel.tunnel_id, again.sas.generation) == (opened.tunnel.tunnel_id, 2)
    assert [tunnel["id"] for tunnel in await tunnels(world)] == [opened.tunnel.tunnel_id]


async def test_lost_keys_are_neither_renewed_nor_activated(
    world: World, device: Device, switch: Switch, restoring_goes_on: asyncio.Event
) -> None:
    """Before the fresh keys are written, and before the device has fetched them: it is told to open again."""
    opened = await device.open()
    tunnel_id = opened.tunnel.tunnel_id
    pending = await device.renew(tunnel_id, 1)

    async def check_refusals() -> None:
        for call in (device.renew(tunnel_id, 1), device.activate(tunnel_id, pending.generation)):
            assert (await refused(call)).reason is Reason.SA_LOST

    await forgets(world, switch)
    await check_refusals()
    restoring_goes_on.set()
    await until(lambda: tunnel_entries(world), lambda count: count == 5)
    await check_refusals()
    restored = await device.open()
    assert (restored.tunnel.tunnel_id, restored.sas.generation) == (tunnel_id, 3)
    renewed = await device.renew(tunnel_id, 3)
    await device.activate(tunnel_id, renewed.generation)
    await until(lambda: tunnel_entries(world), lambda count: count == 5)


async def test_a_renewal_in_the_middle_of_a_restoration_gives_no_number_twice(
    world: World, device: Device, switch: Switch, restoring_goes_on: asyncio.Event
) -> None:
    """The device would keep its keys of that generation, and never hear of the gateway's."""
    opened = await device.open()
    await forgets(world, switch)
    with suppress(CulvertError):
        assert (await device.renew(opened.tunnel.tunnel_id, 1)).generation != 2
    restoring_goes_on.set()
    await until(lambda: tunnel_entries(world), lambda count: count == 5)
    assert (await device.open()).sas.generation == 2


async def test_a_taken_spi_is_drawn_again_and_no_tunnel_ends(
    world: World, device: Device, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await world.enrol()
    await other.prove()
    opened = [await one.open() for one in (device, other)]
    drawn = iter([1001, 1002, 1001, 1003, *range(2001, 2005)])
    monkeypatch.setattr("culvert_service.tunnels.restoring.draw_spi", lambda: next(drawn))
    await forgets(world, switch)
    await until(lambda: tunnel_entries(world), lambda count: count == 10)
    assert {tunnel["id"] for tunnel in await tunnels(world)} == {one.tunnel.tunnel_id for one in opened}
    again = [await one.open() for one in (device, other)]
    assert {one.sas.outbound.spi for one in again} < set(range(2001, 2005))


async def test_after_a_gateways_restart_devices_that_watch_come_first(
    world: World, device: Device, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("culvert_service.tunnels.restoring._BATCH", 1)
    others = [device, *[await world.enrol() for _ in range(3)]]
    for other in others[1:]:
        await other.prove()
    opened = [(await other.open()).tunnel for other in others]
    places = [ipaddress.ip_address(tunnel.inner_address).packed for tunnel in opened]
    live = others[2]
    events = live.watch()
    await next_event(events, "profile")
    lock = repository.lock_idle

    async def slow_for_it(session: AsyncSession, tunnels: Sequence[tuple[uuid.UUID, int]]) -> set[uuid.UUID]:
        if any(str(number) == opened[2].tunnel_id for number, _ in tunnels):
            await asyncio.sleep(0.1)
        return await lock(session, tunnels)

    monkeypatch.setattr(repository, "lock_idle", slow_for_it)
    before = len(switch.writes)
    await forgets(world, switch)
    await until(lambda: tunnel_entries(world), lambda count: count == 5 * len(others))
    written = [write.SerializeToString() for write in switch.writes[before:]]
    order = [place for write in written for place in places if place in write]
    assert order[0] == places[2]
    assert set(order) == set(places)


async def test_unfetched_keys_end_with_their_tunnel(
    world: World, device: Device, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("culvert_service.tunnels.restoring._CLAIM_SECONDS", 0.3)
    await device.open()
    await forgets(world, switch)
    await until(lambda: tunnels(world), lambda found: found == [])
    await until(lambda: tunnel_entries(world), lambda count: count == 0)
    assert (await device.open()).sas.generation == 1


async def test_a_tunnel_outlives_its_controller(tmp_path: Path) -> None:
    settings, switch, port = settings_in(tmp_path), Switch(), free_port()
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        await world.add_gateway("gw-berlin", port)
        await world.add_wiki(["gw-berlin"])
        # Stays up when this controller ends.
        gateway = serving(world, switch, "gw-berlin", port)
        await gateway.__aenter__()
        await world.online("gw-berlin")
        device = await world.enrol()
        await device.prove()
        opened = await device.open()
    before = dict(switch.entries)
    async with running(settings) as world:
        await world.online("gw-berlin")
        assert switch.entries == before
        assert [tunnel["id"] for tunnel in await tunnels(world)] == [opened.tunnel.tunnel_id]
        await gateway.__aexit__(None, None, None)


async def test_foreign_tunnel_entries_are_deleted(world: World, device: Device, switch: Switch) -> None:
    await device.open()
    tunnel_id = (await tunnels(world))[0]["id"]
    switch.silent = True
    # The gateway cannot be told; the database can.
    await world.rest("DELETE", f"/tunnels/{tunnel_id}")
    switch.silent = False

    async def left() -> int | None:
        try:
            return await tunnel_entries(world)
        except AssertionError:
            # The link may end for that silence only now.
            return None

    await until(left, lambda count: count == 0)


async def test_a_tunnel_is_closed_when_its_keys_expire(world: World, device: Device, switch: Switch) -> None:
    """The default: renewed after an hour, over after two."""
    await device.open()
    other = await world.enrol()
    await other.prove()
    await other.open()
    async with world.database.begin() as session:
        age = datetime.timedelta(hours=2, seconds=1)
        mine = SecurityAssociation.device_id == uuid.UUID(device.id)
        await session.execute(
            update(SecurityAssociation).where(mine).values(made_at=SecurityAssociation.made_at - age)
        )
    # The next reconciliation is the next connection's.
    switch.silent = True
    await world.online("gw-berlin", wanted="offline")
    switch.silent = False
    found = await until(lambda: tunnels(world), lambda found: len(found) == 1)
    assert found[0]["device_id"] == other.id
    await until(lambda: tunnel_entries(world), lambda count: count == 5)


async def test_a_soft_limit_on_the_gateway_reaches_the_device(
    world: World, device: Device, switch: Switch
) -> None:
    events = device.watch()
    await next_event(events, "profile")
    opened = await device.open()
    entries = await world.rest("GET", "/gateways/gw-berlin/entries")
    sa_id = next(e["match"]["sa_id"] for e in entries["entries"] if e["table"] == "sad_out")
    switch.digest("soft_limit_t", sa_id, 1)
    expiring = (await next_event(events, "sa_expiring")).sa_expiring
    assert (expiring.tunnel_id, expiring.generation) == (opened.tunnel.tunnel_id, 1)


async def test_revocation_closes_tunnels_and_ends_watch(world: World, device: Device) -> None:
    events = device.watch()
    await next_event(events, "profile")
    await device.open()
    answer = await world.rest("POST", f"/devices/{device.id}/revoke")
    assert answer == {"tunnels_closed": 1}
    with pytest.raises(CulvertError) as ended:
        await next_event(events, "tunnel_closed")
    assert ended.value.reason is Reason.DEVICE_REVOKED
    assert await tunnel_entries(world) == 0
    assert (await refused(device.open())).reason is Reason.DEVICE_REVOKED
    assert (await refused(device.prove())).reason is Reason.DEVICE_REVOKED


async def test_withdrawing_a_resource_closes_its_tunnels_and_says_so(world: World, device: Device) -> None:
    await device.open()
    assert await world.rest("DELETE", "/resources/wiki") == {"tunnels_closed": 1}
    # The device was not watching then, and hears of the end when it is back.
    events = device.watch()
    closed = (await next_event(events, "tunnel_closed")).tunnel_closed
    assert closed.why.reason == int(Reason.CLOSED_BY_ADMIN)
    assert await tunnel_entries(world) == 0


async def test_a_newer_watch_ends_the_older(device: Device) -> None:
    older = device.watch()
    await next_event(older, "profile")
    newer = device.watch()
    await next_event(newer, "profile")
    assert {event.WhichOneof("event") async for event in older} <= {"profile"}


async def test_the_profile_tells_what_to_trust_and_changes_live(world: World, device: Device) -> None:
    events = device.watch()
    profile = (await next_event(events, "profile")).profile
    assert (profile.user, list(profile.managed_zones)) == ("alice", ["corp.example"])
    assert list(profile.protected_prefixes) == ["10.20.0.0/16"]
    assert [(gateway.name, gateway.online) for gateway in profile.gateways] == [("gw-berlin", True)]
    assert [resource.fqdn for resource in profile.resources] == [WIKI]
    assert profile.code_valid_until > time.time() + 7 * 3600
    await world.rest("DELETE", "/resources/wiki")
    await profile_that(events, lambda found: not found.resources)
