"""kill -9 of the controller in front of every step of a failover, on Postgres and sluice.

The gateway only cannot be reached for a while, so that it comes back with all that it held. Whatever the controller died
at, the next one asks the device to move, unless it has; at the end the tunnel is at the next gateway, and at none else.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import httpx
import pytest
from culvert_db import Gateway, Tunnel, bind_database, create_engine
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, agent_pb2
from sqlalchemy import select

from .agreement import agreed
from .conftest import Device, World, administering, settings_in, until
from .gateway_process import needs_root, sluice, unpack
from .mortal_controller import Fuse
from .test_failover import Relay, heard
from .test_killed import listens, mortal
from .wire import Wires

pytestmark = [
    pytest.mark.slow,
    needs_root,
]

_STEPS_MAX = 40
_PAUSE_SECONDS = 1.0
BERLIN, PARIS = "gw-berlin", "gw-paris"
Events = AsyncGenerator[agent_pb2.WatchResponse]
SHOP, PRINTER = "shop.corp.example", "printer.corp.example"


class Way(Relay):
    """To a gateway's P4Runtime server: there or not."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.port = free_port()
        self._server: asyncio.Server | None = None

    @property
    def is_open(self) -> bool:
        return self._server is not None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self.accept, "127.0.0.1", self.port)

    def shut(self) -> None:
        assert self._server is not None
        self._server.close()
        self._server = None
        self.cut()


async def places(world: World) -> dict[str, str]:
    """Each tunnel's gateway."""
    query = select(Tunnel.id, Gateway.name).join(Gateway, Gateway.id == Tunnel.gateway_id)
    async with world.database() as session:
        return {str(tunnel): gateway for tunnel, gateway in await session.execute(query)}


async def fails_over(world: World, device: Device, events: Events, way: Way) -> None:
    way.shut()
    await moves(device, events)
    await back(world, way)
    await agreed(world)


async def moves(device: Device, events: Events) -> None:
    assert await heard(events, "gateway_moved")
    assert (await device.open(SHOP)).tunnel.gateway.name == PARIS


async def back(world: World, way: Way) -> None:
    if not way.is_open:
        await way.open()
    for name in (BERLIN, PARIS):
        await world.online(name)


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_a_controller_may_die_in_front_of_any_step(
    tmp_path: Path, database_url: str, wires: Wires
) -> None:
    settings = settings_in(tmp_path, database_url=database_url, lease_seconds=0.5)
    fuse, engine = Fuse(tmp_path / "fuse"), create_engine(database_url)
    ports = {name: free_port() for name in (BERLIN, PARIS)}
    way, deaths = Way(ports[BERLIN]), 0
    async with mortal(settings, tmp_path / "fuse", "reconciling") as controller, AsyncExitStack() as rest:
        await way.open()
        rest.callback(way.cut)
        await until(lambda: listens(settings), bool, 30)
        world = await rest.enter_async_context(administering(settings, bind_database(engine)))
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        for number, (name, port) in enumerate(ports.items(), 1):
            await world.add_gateway(name, way.port if name == BERLIN else port, number)
            unpack(await world.rest("POST", f"/gateways/{name}/bundle"), tmp_path / name)
            await rest.enter_async_context(sluice(tmp_path / name, wires.names, port))
            await world.online(name)
        await world.add_resource("shop", [BERLIN, PARIS], address="10.20.0.10")
        await world.add_resource("printer", [PARIS], address="10.20.0.10")
        device = await world.enrol()
        await device.prove()
        # The other gateway's tunnel stays open all the time.
        kept = {(await device.open(PRINTER)).tunnel.tunnel_id}
        for step in range(1, _STEPS_MAX):
            opened = (await device.open(SHOP)).tunnel
            assert opened.gateway.name == BERLIN
            await agreed(world, kept | {opened.tunnel_id})
            events = device.watch()
            assert await heard(events, "profile")
            fuse.light(step)
            dying = asyncio.create_task(controller.died())
            moving = asyncio.create_task(fails_over(world, device, events, way))
            await asyncio.wait([dying, moving], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([dying], timeout=_PAUSE_SECONDS)
            moving.cancel()
            with suppress(asyncio.CancelledError, CulvertError, httpx.HTTPError):
                await moving
            if fuse.left:
                dying.cancel()
                break
            assert await dying == -signal.SIGKILL
            deaths += 1
            await controller.start()
            await until(lambda: listens(settings), bool, 30)
            device.connect()
            await world.online(PARIS)
            if kept == {tunnel for tunnel, gateway in (await places(world)).items() if gateway == PARIS}:
                assert not way.is_open
                await moves(device, device.watch())
            await back(world, way)
            # The draining entries are deleted.
            found = await until(
                lambda: places(world), lambda it: len(it) == 2 and set(it.values()) == {PARIS}, 30
            )
            await agreed(world, found)
            for tunnel in found.keys() - kept:
                await device.close(tunnel)
            await agreed(world, kept)
        fuse.light(0)
    await engine.dispose()
    print(f"{deaths} deaths")
    assert deaths >= 6
