"""A resource whose gateways an administrator changes: its tunnels go to the next one before they end at theirs.

device's ESP ─── wan ─┬─[ sluice gw-berlin ]─┬─ lan ─── 10.20.0.10
                      └─[ sluice gw-paris  ]─┘
"""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from culvert_lab.free_port import free_port
from culvert_proto import Reason
from culvert_service.tunnels.refit import MOVE_WITHIN, GatewayOrder, find_behind
from culvert_service.tunnels.roaming import Peer
from sqlalchemy import text

from .conftest import Device, World, next_event, serving, until
from .gateway_process import needs_root, sluice, unpack
from .sealed import esp
from .switch import Switch
from .test_changes import change
from .test_drain import proven, shown, tunnel_entries
from .test_failover import gateway_of_tunnel, heard, spare
from .wire import Wires, frame, next_udp, udp

BERLIN, PARIS, ROME = 1, 2, 3
HOME, WIKI = Peer("203.0.113.10", 4500), Peer("10.20.0.10", 80)
WAN, LAN = "02:00:00:00:01:01", "02:00:00:00:02:01"


@pytest.mark.parametrize(
    ("was", "now", "led"),
    [
        ((BERLIN, PARIS), (PARIS, BERLIN), {BERLIN}),
        ((BERLIN, PARIS), (ROME, BERLIN, PARIS), {BERLIN, PARIS}),
        ((BERLIN, PARIS, ROME), (BERLIN, ROME, PARIS), {ROME, PARIS}),
        # A gateway that is removed, or added at the end, moves no other.
        ((BERLIN, PARIS), (BERLIN, PARIS, ROME), {ROME}),
        ((BERLIN, PARIS), (PARIS,), set[int]()),
        ((BERLIN, PARIS), (BERLIN, PARIS), set[int]()),
    ],
)
def test_tunnels_move_from_gateways_that_fell_behind_others(
    was: tuple[int, ...], now: tuple[int, ...], led: set[int]
) -> None:
    assert find_behind(GatewayOrder(was, weighted=False), GatewayOrder(now, weighted=False)) == led


def test_an_order_of_gateways_moves_tunnels_and_weights_do_not() -> None:
    order, weights = (GatewayOrder((BERLIN, PARIS), weighted) for weighted in (False, True))
    assert find_behind(order, weights) == set()
    assert find_behind(weights, order) == {PARIS}


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    return await proven(world)


async def set_gateways(world: World, *gateways: str) -> None:
    await change(world, "/resources/wiki", gateways=list(gateways))


@pytest.mark.slow
async def test_a_gateway_taken_off_a_resource_keeps_tunnels_until_they_moved(
    world: World, switch: Switch, device: Device
) -> None:
    async with spare(world):
        events = device.watch()
        assert await heard(events, "profile")
        opened = (await device.open()).tunnel
        await set_gateways(world, "gw-paris")
        moved = (await next_event(events, "gateway_moved")).gateway_moved
        assert (moved.tunnel_id, moved.why.reason) == (opened.tunnel_id, int(Reason.GATEWAY_REPLACED))
        assert "wiki.corp.example" in moved.why.message
        assert await tunnel_entries(world, "gw-berlin") == 5
        # A renewal that is under way goes on.
        renewed = await device.renew(opened.tunnel_id, 1)
        await device.activate(opened.tunnel_id, renewed.generation)
        again = (await device.open()).tunnel
        assert (again.gateway.name, again.tunnel_id != opened.tunnel_id) == ("gw-paris", True)
        await until(lambda: tunnel_entries(world, "gw-berlin"), lambda count: count == 0)
        assert await gateway_of_tunnel(world) == "gw-paris"
        assert not await heard(events, "gateway_moved", 3.0)


async def permission(world: World) -> tuple[datetime.datetime, bool]:
    """Until when the only tunnel is permitted, and whether that was decided under the policies as they are."""
    query = "SELECT permitted_until, policy_version = version FROM tunnels, policy_version"
    async with world.database() as session:
        until_when, as_they_are = (await session.execute(text(query))).one()
    return until_when, as_they_are


@pytest.mark.slow
async def test_a_tunnel_that_does_not_move_in_time_is_closed(
    world: World, switch: Switch, device: Device
) -> None:
    async with spare(world):
        await device.open()
        before = await shown(world)
        await set_gateways(world, "gw-paris")
        by, _ = await permission(world)
        assert by <= datetime.datetime.now(datetime.UTC) + MOVE_WITHIN
        # To decide anew about what is permitted gives no more time.
        await world.rest("POST", "/groups", {"name": "all", "members": ["alice"]})
        assert await until(lambda: permission(world), lambda found: found[1]) == (by, True)
        events = device.watch()
        assert await heard(events, "gateway_moved")
        assert await gateway_of_tunnel(world) == "gw-berlin"
        async with world.database.begin() as session:
            await session.execute(text("UPDATE tunnels SET permitted_until = now()"))
        closed = (await next_event(events, "tunnel_closed")).tunnel_closed
        assert closed.why.reason == int(Reason.TUNNEL_OUTDATED)
        await until(lambda: tunnel_entries(world, "gw-berlin"), lambda count: count == 0)
        assert (await shown(world))["drift"] == before["drift"]


@pytest.mark.slow
async def test_a_new_order_of_gateways_moves_each_tunnel_once(
    world: World, switch: Switch, device: Device
) -> None:
    async with spare(world) as paris:
        other = await proven(world)
        # A device whose person has chosen a gateway is asked too, and stays.
        chosen = (await device.open(gateway="gw-berlin")).tunnel
        assert (await other.open()).tunnel.gateway.name == "gw-berlin"
        paris.silent = True
        await world.online("gw-paris", wanted="offline")
        await set_gateways(world, "gw-paris", "gw-berlin")
        # No device moves to a gateway that cannot be used.
        assert not await heard(other.watch(), "gateway_moved", 3.0)
        paris.silent = False
        await world.online("gw-paris")
        for watching in (device, other):
            moved = await heard(watching.watch(), "gateway_moved")
            assert moved is not None
            assert moved.gateway_moved.why.reason == int(Reason.GATEWAY_REPLACED)
        assert (await device.open(gateway="gw-berlin")).tunnel.tunnel_id == chosen.tunnel_id
        assert (await other.open()).tunnel.gateway.name == "gw-paris"
        for watching in (device, other):
            assert not await heard(watching.watch(), "gateway_moved", 6.0)


@pytest.mark.slow
async def test_a_draining_gateways_tunnels_are_spread_by_weight(world: World, switch: Switch) -> None:
    async with AsyncExitStack() as gateways:
        weights = {"gw-berlin": 3, "gw-paris": 3, "gw-rome": 3}
        for number, name in enumerate(("gw-paris", "gw-rome"), 2):
            port = free_port()
            await world.add_gateway(name, port, number)
            await gateways.enter_async_context(serving(world, Switch(), name, port))
            await world.online(name)
        await change(world, "/resources/wiki", gateways=list(weights), weights=weights)
        devices = [await proven(world) for _ in range(12)]
        traces = await world.rest("GET", "/access?user=alice&name=wiki.corp.example")
        order = {trace["device_id"]: trace["gateways"] for trace in traces}
        streams = {device.id: device.watch() for device in devices}
        opened: dict[str, str] = {}
        for device in devices:
            assert await heard(streams[device.id], "profile")
            opened[device.id] = (await device.open()).tunnel.gateway.name
        assert opened == {device.id: order[device.id][0] for device in devices}
        leaving = max(opened.values(), key=list(opened.values()).count)
        await world.rest("POST", f"/gateways/{leaving}/drain")
        for device in devices:
            if opened[device.id] == leaving:
                assert await heard(streams[device.id], "gateway_moved")
                assert (await device.open()).tunnel.gateway.name == order[device.id][1]
        tunnels = await world.rest("GET", "/tunnels")
        now = {it["device_id"]: it["gateway"] for it in tunnels}
        assert {it: now[it] for it in opened if opened[it] != leaving} == {
            it: gateway for it, gateway in opened.items() if gateway != leaving
        }
        await until(lambda: tunnel_entries(world, leaving), lambda count: count == 0)


async def drained(world: World) -> None:
    await world.rest("POST", "/gateways/gw-berlin/drain")


async def taken_off(world: World) -> None:
    await set_gateways(world, "gw-paris")


async def put_behind(world: World) -> None:
    await set_gateways(world, "gw-paris", "gw-berlin")


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("lead", [drained, taken_off, put_behind])
async def test_no_packet_is_lost_on_the_way_from_one_gateway_to_the_next(
    world: World, wires: Wires, tmp_path: Path, lead: Callable[[World], Awaitable[None]]
) -> None:
    ports = {"gw-berlin": free_port(), "gw-paris": free_port()}
    async with AsyncExitStack() as gateways:
        for number, (name, port) in enumerate(ports.items(), 1):
            await world.add_gateway(name, port, number)
            unpack(await world.rest("POST", f"/gateways/{name}/bundle"), tmp_path / name)
            await gateways.enter_async_context(sluice(tmp_path / name, wires.names, port))
        for name in ports:
            await world.online(name)
        await world.add_wiki(list(ports))
        device = await proven(world)
        events = device.watch()
        assert await heard(events, "profile")
        old = await device.open()
        await lead(world)
        assert await heard(events, "gateway_moved")
        new = await device.open()
        assert (old.tunnel.gateway.name, new.tunnel.gateway.name) == ("gw-berlin", "gw-paris")
        # The device has not got the answer yet, has it, and has packets of both under way.
        for number, it in ((1, old), (1, new), (2, old), (2, new), (3, old)):
            inner = Peer(it.tunnel.inner_address, 40000)
            packet = esp(it.sas.outbound, number, udp(inner, WIKI, b"asks"))
            there = Peer(it.tunnel.outer_address, 4500)
            await wires.send(wires.wan, frame(WAN, udp(HOME, there, packet)))
            assert await next_udp(wires.lan) == (WIKI, b"asks")
            await wires.send(wires.lan, frame(LAN, udp(WIKI, inner, b"says")))
            where, sealed = await next_udp(wires.wan)
            assert (where, int.from_bytes(sealed[:4])) == (HOME, it.sas.inbound.spi)
        await until(lambda: tunnel_entries(world, "gw-berlin"), lambda count: count == 0)
        assert await tunnel_entries(world, "gw-paris") == 5
