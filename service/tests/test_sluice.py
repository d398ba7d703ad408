"""The same against the real gateway: sluice, on the two ends of a veth pair that carries nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from culvert_proto import Reason

from .agreement import agreed
from .conftest import Device, World, free_port, until
from .gateway_process import needs_root, sluice, unpack
from .wire import ip

pytestmark = [
    pytest.mark.slow,
    needs_root,
]


@pytest.fixture
async def ports() -> AsyncGenerator[tuple[str, str]]:
    names = (f"cvw{os.getpid() % 10**6}", f"cvl{os.getpid() % 10**6}")
    await ip("link", "add", names[0], "type", "veth", "peer", "name", names[1])
    for name in names:
        await ip("link", "set", name, "up")
    yield names
    await ip("link", "delete", names[0])


@pytest.fixture
async def gateway(world: World, tmp_path: Path) -> tuple[Path, int]:
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    await world.add_wiki(["gw-berlin"])
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    return tmp_path / "gateway", port


@pytest.fixture
async def device(world: World) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


async def tunnel_entries(world: World) -> int:
    return int((await world.rest("GET", "/gateways/gw-berlin/entries"))["tunnel_entries"])


async def test_a_tunnels_whole_life(
    world: World, device: Device, gateway: tuple[Path, int], ports: tuple[str, str]
) -> None:
    directory, port = gateway
    async with sluice(directory, ports, port):
        await world.online("gw-berlin")
        opened = await device.open()
        tunnel_id = opened.tunnel.tunnel_id
        assert await tunnel_entries(world) == 4
        renewed = await device.renew(tunnel_id, opened.sas.generation)
        assert await tunnel_entries(world) == 7
        await device.activate(tunnel_id, renewed.generation)
        await until(lambda: tunnel_entries(world), lambda count: count == 4)
        await agreed(world, {tunnel_id})
        await device.close(tunnel_id)
        assert await tunnel_entries(world) == 0


async def test_a_gateway_that_dies_is_told_from_one_that_comes_back_empty(
    world: World, device: Device, gateway: tuple[Path, int], ports: tuple[str, str]
) -> None:
    directory, port = gateway
    events = device.watch()
    async with sluice(directory, ports, port):
        await world.online("gw-berlin")
        tunnel = (await device.open()).tunnel
    async with asyncio.timeout(10):
        with pytest.raises(Exception, match="cannot be reached"):
            await device.open()
    assert len(await world.rest("GET", "/tunnels")) == 1
    async with sluice(directory, ports, port):
        await world.online("gw-berlin")
        async for event in events:
            if event.HasField("tunnel_closed"):
                assert event.tunnel_closed.why.reason == int(Reason.SA_LOST)
                break
        # Filled again, before the device asks.
        assert await tunnel_entries(world) == 4
        assert (await device.open()).sas.generation == 2
        await agreed(world, {tunnel.tunnel_id})
