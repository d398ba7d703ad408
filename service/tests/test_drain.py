"""A gateway that drains: nothing opens through it, what is open moves to others before it ends there."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from culvert_db import InSession, Tunnel
from culvert_proto import Reason
from culvert_service.tunnels import repository
from culvert_service.tunnels.closing import Draining
from sqlalchemy import select, text

from .conftest import Device, World, next_event, refused, until
from .switch import Switch
from .test_failover import gateway_of_tunnel, heard, spare
from .test_versions import etag, refusal

pytestmark = pytest.mark.slow


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    return await proven(world)


async def proven(world: World) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


async def shown(world: World, name: str = "gw-berlin") -> dict[str, object]:
    return await world.rest("GET", f"/gateways/{name}")


async def tunnel_entries(world: World, name: str) -> int:
    return int((await world.rest("GET", f"/gateways/{name}/entries"))["tunnel_entries"])


async def test_tunnels_move_off_a_gateway_that_drains_before_they_end_there(
    world: World, switch: Switch, device: Device
) -> None:
    async with spare(world):
        events = device.watch()
        assert await heard(events, "profile")
        opened = (await device.open()).tunnel
        seen = await etag(world, "/gateways/gw-berlin")
        drained = await world.rest("POST", "/gateways/gw-berlin/drain")
        assert (drained["tunnels"], drained["alone_for"]) == (1, [])
        stale = await world.admin.post("/api/v1/gateways/gw-berlin/undrain", headers={"If-Match": seen})
        assert refusal(stale) == (412, "VERSION_STALE")
        moved = (await next_event(events, "gateway_moved")).gateway_moved
        assert (moved.tunnel_id, moved.why.reason) == (opened.tunnel_id, int(Reason.GATEWAY_DRAINING))
        again = (await device.open()).tunnel
        assert (again.gateway.name, again.tunnel_id != opened.tunnel_id) == ("gw-paris", True)
        # The old tunnel still carries packets that are under way.
        assert await tunnel_entries(world, "gw-berlin") == 5
        assert (await gateway_of_tunnel(world), (await shown(world))["tunnels"]) == ("gw-paris", 0)
        assert (await refused(device.renew(opened.tunnel_id, 1))).reason is Reason.TUNNEL_UNKNOWN
        other = await proven(world)
        assert (await other.open(gateway="gw-berlin")).tunnel.gateway.name == "gw-paris"
        await until(lambda: tunnel_entries(world, "gw-berlin"), lambda count: count == 0)
        assert (await shown(world))["drift"] == drained["drift"]
        await world.rest("POST", "/gateways/gw-berlin/undrain")
        assert (await shown(world))["draining_since"] is None
        assert (await other.open(gateway="gw-berlin")).tunnel.gateway.name == "gw-berlin"
        lines = await world.rest("GET", "/audit?limit=500")
        actions = [line["action"] for line in lines if line["object"] == "gateway/gw-berlin"]
        assert {"gateway.drain", "gateway.undrain"} <= set(actions)


async def test_a_resource_that_only_this_gateway_serves_says_so_before(
    world: World, switch: Switch, device: Device
) -> None:
    assert (await shown(world))["alone_for"] == ["wiki"]
    opened = (await device.open()).tunnel
    answer = await world.admin.post("/api/v1/gateways/gw-berlin/drain")
    assert refusal(answer) == (409, "GATEWAY_NEEDED")
    assert "serves wiki" in answer.json()["detail"]
    assert (await shown(world))["draining_since"] is None
    await world.rest("POST", "/gateways/gw-berlin/drain?anyway=true")
    other = await proven(world)
    assert (await refused(other.open())).reason is Reason.GATEWAY_DRAINING
    trace = (await world.rest("GET", "/access?user=alice&name=wiki.corp.example"))[0]
    assert (trace["verdict"], trace["reason"]) == ("deny", "GATEWAY_DRAINING")
    # An open tunnel continues.
    await device.renew(opened.tunnel_id, 1)
    assert (await shown(world))["tunnels"] == 1
    assert refusal(await world.admin.delete("/api/v1/gateways/gw-berlin")) == (409, "GATEWAY_IN_USE")
    await device.close(opened.tunnel_id)
    await world.rest("DELETE", "/resources/wiki")
    await world.rest("DELETE", "/gateways/gw-berlin")


async def test_a_tunnel_that_leaves_goes_although_its_controller_dies(
    world: World, switch: Switch, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object) -> None:
        pass

    monkeypatch.setattr(Draining, "_close", die)
    async with spare(world):
        await device.open()
        await world.rest("POST", "/gateways/gw-berlin/drain")
        await device.open()
        assert await tunnel_entries(world, "gw-berlin") == 5
        monkeypatch.setattr("culvert_service.gateways.link._RECONCILE_SECONDS", 0.2)
        # As by another controller: its link begins with a reconciliation.
        switch.silent = True
        await world.online("gw-berlin", wanted="offline")
        switch.silent = False
        await world.online("gw-berlin")
        await until(lambda: tunnel_entries(world, "gw-berlin"), lambda count: count == 0)
        async with world.database() as session:
            assert await session.scalar(text("SELECT count(*) FROM tunnels")) == 1


async def test_a_tunnel_with_a_chosen_gateway_moves_when_that_dies(
    world: World, switch: Switch, device: Device
) -> None:
    async with spare(world) as paris:
        events = device.watch()
        assert await heard(events, "profile")
        assert (await device.open(gateway="gw-paris")).tunnel.gateway.name == "gw-paris"
        paris.silent = True
        assert await heard(events, "gateway_moved")
        assert (await device.open(gateway="gw-paris")).tunnel.gateway.name == "gw-berlin"


async def test_reconcile_does_not_block_close(world: World, switch: Switch, device: Device) -> None:
    """One transaction locks the tunnel's row, the other its SAs' rows: in the wrong order they would deadlock."""
    async with spare(world):
        opened = (await device.open()).tunnel
        await world.rest("POST", "/gateways/gw-berlin/drain")
        await device.open()
        number = select(Tunnel.gateway_id).where(Tunnel.id == uuid.UUID(opened.tunnel_id))
        async with world.database.begin() as ends:
            gateway_id = await ends.scalar(number)
            assert gateway_id is not None
            await ends.execute(
                text("UPDATE security_associations SET drain_until = now() - interval '1 hour'")
            )
        async with world.database.begin() as ends, asyncio.timeout(5):
            (record,) = await repository.lock_all(
                InSession(ends), repository.has_id(uuid.UUID(opened.tunnel_id))
            )
            async with world.database.begin() as looks:
                await repository.forget_drained(looks, gateway_id)
                portion = await repository.read_portion(looks, gateway_id)
                assert portion is not None
                assert [it.id for it in portion.records()] == [record.id]
                assert await repository.read_portion(looks, gateway_id, portion.last) is None
            await repository.delete_tunnels(ends, [record.id])
