"""A gateway that goes: its tunnels go to the next one, and a link that only breaks moves nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from culvert_lab.free_port import free_port
from culvert_proto import Reason, agent_pb2
from culvert_service.tunnels.failover import GONE_SECONDS, UNKNOWN_SECONDS, GatewayContact, Outages

from .conftest import PATIENCE_SECONDS, Device, World, serving, until
from .gateway_process import needs_root, sluice, unpack
from .switch import Switch
from .wire import Wires


def test_a_gateway_is_gone_a_while_after_its_last_answer() -> None:
    outages, silent = Outages(), GatewayContact(alive=False, answered_at=100.0)
    assert outages.find_gone({"berlin": silent}, 100.0 + GONE_SECONDS / 2) == set()
    assert outages.find_gone({"berlin": silent}, 100.0 + GONE_SECONDS) == {"berlin"}
    # The gateway answers, and only this process was late to ask.
    assert (
        outages.find_gone({"berlin": GatewayContact(alive=True, answered_at=100.0)}, 100.0 + 2 * GONE_SECONDS)
        == set()
    )


def test_a_gateway_never_reached_is_gone_only_after_a_longer_time() -> None:
    outages, unknown = Outages(), {"berlin": GatewayContact(alive=False, answered_at=None)}
    assert outages.find_gone(unknown, 100.0) == set()
    assert outages.find_gone(unknown, 100.0 + UNKNOWN_SECONDS - 1) == set()
    assert outages.find_gone(unknown, 100.0 + UNKNOWN_SECONDS) == {"berlin"}
    assert outages.find_gone({}, 200.0) == set()
    assert outages.find_gone(unknown, 200.0) == set()


async def heard(
    events: AsyncGenerator[agent_pb2.WatchResponse], kind: str, seconds: float = PATIENCE_SECONDS
) -> agent_pb2.WatchResponse | None:
    """The next such event, if one comes in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for event in events:
                if event.WhichOneof("event") == kind:
                    return event
    return None


class Relay:
    """A TCP relay to a gateway's P4Runtime server, whose connections break on demand."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, back]
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


@asynccontextmanager
async def spare(world: World) -> AsyncGenerator[Switch]:
    """The gateway gw-paris, to which the wiki's tunnels may go."""
    switch, port = Switch(), free_port()
    await world.add_gateway("gw-paris", port, number=2)
    await world.rest("DELETE", "/resources/wiki")
    await world.add_wiki(["gw-berlin", "gw-paris"])
    async with serving(world, switch, "gw-paris", port):
        await world.online("gw-paris")
        yield switch


async def gateway_of_tunnel(world: World) -> str:
    (tunnel,) = await world.rest("GET", "/tunnels")
    return str(tunnel["gateway"])


@pytest.mark.slow
async def test_a_gateway_that_falls_silent_moves_its_tunnels_to_the_next(
    world: World, switch: Switch, device: Device
) -> None:
    async with spare(world):
        events = device.watch()
        assert await heard(events, "profile")
        opened = await device.open()
        assert opened.tunnel.gateway.name == "gw-berlin"
        switch.silent = True
        event = await heard(events, "gateway_moved")
        assert event is not None
        assert event.gateway_moved.tunnel_id == opened.tunnel.tunnel_id
        assert event.gateway_moved.why.reason == int(Reason.GATEWAY_DOWN)
        moved = await device.open()
        assert (moved.tunnel.gateway.name, moved.tunnel.inner_address) == ("gw-paris", "10.99.2.1")
        # The first gateway loses the tunnel's entries when it is back.
        switch.silent = False
        await world.online("gw-berlin")
        await until(
            lambda: world.rest("GET", "/gateways/gw-berlin/entries"), lambda it: it["tunnel_entries"] == 0
        )
        (tunnel,) = await world.rest("GET", "/tunnels")
        assert (tunnel["gateway"], tunnel["moved_from"]) == ("gw-paris", "gw-berlin")


@pytest.mark.slow
async def test_without_another_gateway_a_tunnel_stays_and_no_device_is_asked(
    world: World, switch: Switch, device: Device
) -> None:
    events = device.watch()
    assert await heard(events, "profile")
    await device.open()
    switch.silent = True
    await world.online("gw-berlin", wanted="offline")
    assert not await heard(events, "gateway_moved", 3.0)
    assert await gateway_of_tunnel(world) == "gw-berlin"


@pytest.mark.slow
async def test_a_device_that_was_away_is_asked_when_it_is_back(
    world: World, switch: Switch, device: Device
) -> None:
    async with spare(world):
        await device.open()
        switch.silent = True
        await world.online("gw-berlin", wanted="offline")
        await asyncio.sleep(GONE_SECONDS + 0.5)
        assert await heard(device.watch(), "gateway_moved")


@pytest.mark.slow
@needs_root
async def test_a_broken_link_moves_no_tunnel_a_killed_gateway_moves_all(
    world: World, wires: Wires, tmp_path: Path
) -> None:
    ports = {"gw-berlin": free_port(), "gw-paris": free_port()}
    async with AsyncExitStack() as gateways:
        berlin = await gateways.enter_async_context(AsyncExitStack())
        relay, relayed = Relay(ports["gw-berlin"]), free_port()
        await gateways.enter_async_context(await asyncio.start_server(relay.accept, "127.0.0.1", relayed))
        for number, (name, port) in enumerate(ports.items(), 1):
            await world.add_gateway(name, relayed if name == "gw-berlin" else port, number)
            unpack(await world.rest("POST", f"/gateways/{name}/bundle"), tmp_path / name)
            stack = berlin if name == "gw-berlin" else gateways
            await stack.enter_async_context(sluice(tmp_path / name, wires.names, port))
            await world.online(name)
        await world.add_wiki(list(ports))
        device = await world.enrol()
        await device.prove()
        events = device.watch()
        assert await heard(events, "profile")
        await device.open()
        before = await world.rest("GET", "/gateways/gw-berlin/entries")
        relay.cut()
        await world.online("gw-berlin", wanted="offline")
        await world.online("gw-berlin")
        assert not await heard(events, "gateway_moved", GONE_SECONDS + 1.0)
        assert await world.rest("GET", "/gateways/gw-berlin/entries") == before
        events = device.watch()
        assert await heard(events, "profile")
        await berlin.aclose()
        assert await heard(events, "gateway_moved")
        assert (await device.open()).tunnel.gateway.name == "gw-paris"
        assert (await world.rest("GET", "/gateways/gw-paris/entries"))["tunnel_entries"] == 5
