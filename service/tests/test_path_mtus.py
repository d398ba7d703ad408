"""A device's path MTU limits the gateway's policies as long as the tunnel lives."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from culvert_lab.free_port import free_port
from culvert_proto import Reason, agent_pb2
from culvert_service.config import Settings

from .agreement import agreed
from .conftest import Device, World, refused, running, serving, settings_in, until
from .gateway_process import needs_root
from .switch import Switch
from .test_controllers import behind, owned
from .wire import Wires

pytestmark = pytest.mark.slow

# Outer to inner MTU, for GCM in UDP over IPv4.
INNER = {1280: 1218, 1400: 1338, 1492: 1430, 1500: 1438}


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


async def set_path_mtu(device: Device, tunnel_id: str, mtu: int) -> None:
    request = agent_pb2.SetPathMtuRequest(tunnel_id=tunnel_id, mtu=mtu)
    await device.call(device.stub.SetPathMtu(request))


async def limits(world: World) -> set[tuple[str, int]]:
    """Each policy table with the largest packet that its entries of tunnels allow."""
    found = (await world.rest("GET", "/gateways/gw-berlin/entries"))["entries"]
    return {
        (entry["table"], entry["params"]["inner_mtu"])
        for entry in found
        if entry["table"] == "spd_in" or (entry["table"] == "spd_out" and entry["action"] == "protect")
    }


def both(mtu: int) -> set[tuple[str, int]]:
    return {("spd_in", mtu), ("spd_out", mtu)}


def told(mtu: int) -> list[agent_pb2.GatewayDistance]:
    return [agent_pb2.GatewayDistance(name="gw-berlin", path_mtu=mtu)]


@pytest.mark.parametrize(("mtu", "inner"), INNER.items())
async def test_a_tunnel_begins_with_the_path_that_its_device_has_measured(
    world: World, device: Device, mtu: int, inner: int
) -> None:
    tunnel = (await device.open(distances=told(mtu))).tunnel
    assert await limits(world) == both(inner)
    # The device is told what the site allows: it knows its path by itself.
    assert (tunnel.path_mtu, tunnel.inner_mtu) == (mtu, 1438)


async def test_a_changed_path_changes_all_generations_policies_in_one_write(
    world: World, switch: Switch, device: Device
) -> None:
    opened = await device.open()
    assert (opened.tunnel.path_mtu, await limits(world)) == (0, both(1438))
    await device.renew(opened.tunnel.tunnel_id, 1)
    before = len(switch.writes)
    await set_path_mtu(device, opened.tunnel.tunnel_id, 1400)
    assert await limits(world) == both(1338)
    await set_path_mtu(device, opened.tunnel.tunnel_id, 1400)
    assert len(switch.writes) == before + 1
    await set_path_mtu(device, opened.tunnel.tunnel_id, 1492)
    assert await limits(world) == both(1430)
    # More than the gateway's own links let through is no more than that.
    await set_path_mtu(device, opened.tunnel.tunnel_id, 9000)
    assert await limits(world) == both(1438)


async def test_a_path_mtu_survives_renewal_and_reopening(world: World, device: Device) -> None:
    opened = await device.open(distances=told(1400))
    tunnel_id = opened.tunnel.tunnel_id
    renewed = await device.renew(tunnel_id, 1)
    await device.activate(tunnel_id, renewed.generation)
    assert await limits(world) == both(1338)
    again = (await device.open()).tunnel
    assert (again.tunnel_id, again.path_mtu, await limits(world)) == (tunnel_id, 1400, both(1338))
    # Also the generation that drains is for the new path.
    again = (await device.open(distances=told(1280))).tunnel
    assert (again.path_mtu, await limits(world)) == (1280, both(1218))
    await agreed(world, {tunnel_id})


async def test_a_path_mtu_survives_the_controller(tmp_path: Path, database_url: str) -> None:
    settings, switch, port = settings_in(tmp_path, database_url=database_url), Switch(), free_port()
    async with AsyncExitStack() as rest:
        async with running(settings) as world:
            await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
            await world.add_gateway("gw-berlin", port)
            await rest.enter_async_context(serving(world, switch, "gw-berlin", port))
            await world.add_wiki(["gw-berlin"])
            await world.online("gw-berlin")
            device = await world.enrol()
            await device.prove()
            tunnel_id = (await device.open()).tunnel.tunnel_id
            await set_path_mtu(device, tunnel_id, 1400)
        # A new controller computes the same entries from the rows; otherwise it would write the differences.
        async with running(settings) as world:
            await world.online("gw-berlin")
            assert await limits(world) == both(1338)
            assert (await world.rest("GET", "/gateways/gw-berlin"))["drift"]["repaired"] == 0


async def test_a_refusal_of_the_gateway_leaves_the_path_as_it_was(
    world: World, switch: Switch, device: Device
) -> None:
    opened = await device.open(distances=told(1492))
    switch.refuse_table = switch.table("spd_out")
    error = await refused(set_path_mtu(device, opened.tunnel.tunnel_id, 1400))
    assert error.reason is Reason.GATEWAY_REFUSED
    switch.refuse_table = None
    await until(lambda: limits(world), lambda found: found == both(1430))
    assert (await device.open()).tunnel.path_mtu == 1492


async def test_a_device_cannot_set_another_tunnels_path_mtu(world: World, device: Device) -> None:
    opened = await device.open()
    other = await world.enrol()
    await other.prove()
    error = await refused(set_path_mtu(other, opened.tunnel.tunnel_id, 1280))
    assert error.reason is Reason.TUNNEL_UNKNOWN
    assert await limits(world) == both(1438)


@pytest.mark.parametrize("mtu", [0, 1, 1279, 65536, 2**32 - 1])
async def test_a_useless_path_mtu_is_refused(world: World, device: Device, mtu: int) -> None:
    opened = await device.open()
    error = await refused(set_path_mtu(device, opened.tunnel.tunnel_id, mtu))
    assert error.reason is Reason.REQUEST_INVALID
    assert "1280" in error.message
    if mtu:
        error = await refused(device.open("wiki.corp.example", distances=told(mtu)))
        assert error.reason is Reason.REQUEST_INVALID
    assert await limits(world) == both(1438)


@needs_root
async def test_the_gateways_owner_is_asked_by_another_controller(
    tmp_path: Path, database_url: str, wires: Wires
) -> None:
    def named(name: str) -> Settings:
        return settings_in(tmp_path, database_url=database_url, controller_name=name)

    async with AsyncExitStack() as rest:
        one = await rest.enter_async_context(running(named("one")))
        await rest.enter_async_context(behind(one, wires, tmp_path))
        two = await rest.enter_async_context(running(named("two")))
        await owned(two, "one")
        device = await one.enrol()
        await device.prove()
        opened = await device.open()
        elsewhere = device.at(two.settings.agent_listen)
        await set_path_mtu(elsewhere, opened.tunnel.tunnel_id, 1400)
        assert await limits(one) == both(1338)


async def test_a_gateway_may_be_behind_a_line_as_narrow_as_ipv6_allows(world: World) -> None:
    wan = {"port": 1, "mac": "02:00:00:00:01:01", "next_hop_mac": "02:00:00:00:01:02"}
    made = await world.add_gateway("gw-berlin", free_port(), wan=wan | {"mtu": 1280})
    assert made["wan"]["mtu"] == 1280
