"""kill -9 of the controller in front of every step of a tunnel's life, on Postgres and sluice.

Whatever it died at, the next one leaves no SA without its tunnel and no tunnel without its SAs, on either side, and serves.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from culvert_db import bind_database, create_engine
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError
from culvert_service.config import Settings

from .agreement import agreed
from .conftest import Device, World, administering, settings_in, until
from .gateway_process import needs_root, sluice, unpack
from .mortal_controller import Fuse
from .wire import Wires

pytestmark = [
    pytest.mark.slow,
    needs_root,
]

# More than a life has.
_STEPS_MAX = 100
_DRAINED_SECONDS = 0.15


class Mortal:
    """The program that forks controllers; one runs at a time."""

    def __init__(self, program: Process, settings: Settings) -> None:
        self._program = program
        self._settings = settings
        self._pid = 0

    async def start(self) -> None:
        assert self._program.stdin is not None
        settings = self._settings.model_dump(mode="json") | {
            "database_url": self._settings.database_url and self._settings.database_url.get_secret_value()
        }
        self._program.stdin.write(json.dumps(settings).encode() + b"\n")
        self._pid = (await self._line())["pid"]

    async def died(self) -> int:
        """Wait for the program's end and return its exit status."""
        return (await self._line())["status"]

    def stop(self) -> None:
        os.kill(self._pid, 15)

    async def _line(self) -> dict[str, int]:
        assert self._program.stdout is not None
        async with asyncio.timeout(30):
            return json.loads(await self._program.stdout.readline())


@asynccontextmanager
async def mortal(settings: Settings, fuse: Path, *more: str) -> AsyncGenerator[Mortal]:
    """`more`: what the program counts besides."""
    with fuse.with_name("controllers.log").open("ab") as log:
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).parent / "mortal_controller.py"),
            str(fuse),
            *more,
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
        )
    controller = Mortal(program, settings)
    await controller.start()
    try:
        yield controller
    finally:
        controller.stop()
        assert program.stdin is not None
        program.stdin.close()
        await program.wait()


async def life(device: Device) -> None:
    """Every step that a device can ask for: opened, renewed, activated, drained, opened anew, renewed in vain, closed."""
    opened = await device.open()
    tunnel_id = opened.tunnel.tunnel_id
    renewed = await device.renew(tunnel_id, opened.sas.generation)
    await device.activate(tunnel_id, renewed.generation)
    await asyncio.sleep(_DRAINED_SECONDS)
    anew = await device.open()
    await asyncio.sleep(_DRAINED_SECONDS)
    await device.renew(tunnel_id, anew.sas.generation)
    await device.renew(tunnel_id, anew.sas.generation)
    await device.close(tunnel_id)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_controller_may_die_in_front_of_any_step(
    tmp_path: Path, database_url: str, wires: Wires
) -> None:
    settings, fuse, port = (
        settings_in(tmp_path, database_url=database_url, lease_seconds=0.5),
        Fuse(tmp_path / "fuse"),
        free_port(),
    )
    engine = create_engine(database_url)
    async with mortal(settings, tmp_path / "fuse") as controller:
        await until(lambda: listens(settings), bool, 30)
        async with administering(settings, bind_database(engine)) as world:
            await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
            await world.add_gateway("gw-berlin", port)
            await world.add_wiki(["gw-berlin"])
            unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
            async with sluice(tmp_path / "gateway", wires.names, port):
                await world.online("gw-berlin")
                device = await world.enrol()
                await device.prove()
                deaths = 0
                for step in range(1, _STEPS_MAX):
                    fuse.light(step)
                    try:
                        await life(device)
                    except CulvertError:
                        assert not fuse.left
                    await asyncio.sleep(_DRAINED_SECONDS)
                    if fuse.left:
                        break
                    assert await controller.died() == -9
                    deaths += 1
                    await controller.start()
                    await until(lambda: _online(world), bool, 30)
                    device.connect()
                    await agreed(world)
                    # The killed life's rows and entries neither block the next life nor outlive it.
                    await device.close((await device.open()).tunnel.tunnel_id)
                    await agreed(world, ())
                fuse.light(0)
    await engine.dispose()
    print(f"{deaths} deaths")
    assert deaths > 20


async def listens(settings: Settings) -> bool:
    try:
        _, writer = await asyncio.open_connection(*settings.rest_listen.split(":"))
    except OSError:
        return False
    writer.close()
    return True


async def _online(world: World) -> bool:
    try:
        return bool((await world.rest("GET", "/gateways/gw-berlin"))["state"] == "online")
    except httpx.HTTPError:
        return False
