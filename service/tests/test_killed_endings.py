"""kill -9 of the controller in front of every step of a tunnel's end or move that its device has not asked for.

Whatever it died at, the next one ends what was to end, and the rest goes on; so does another device's tunnel all the time.
"""

from __future__ import annotations

import abc
import asyncio
import signal
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from culvert_db import Tunnel, bind_database, create_engine
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError
from sqlalchemy import select

from .agreement import agreed
from .conftest import Device, World, administering, settings_in, until
from .gateway_process import needs_root, sluice, unpack
from .mortal_controller import Fuse
from .test_changes import change
from .test_killed import listens, mortal
from .wire import Wires

pytestmark = [
    pytest.mark.slow,
    needs_root,
]

_STEPS_MAX = 30
# More than lies between two steps.
_PAUSE_SECONDS = 2.0
SHOP = "shop.corp.example"
GATEWAYS = ["gw-berlin", "gw-paris"]


@dataclass
class Scene:
    world: World
    device: Device

    async def opened(self, **resource: object) -> str:
        """The shop's tunnel."""
        await self.world.add_resource("shop", GATEWAYS, address="10.20.0.10", **resource)
        return (await self.device.open(SHOP)).tunnel.tunnel_id

    async def tunnels(self) -> set[str]:
        async with self.world.database() as session:
            return {str(tunnel_id) for tunnel_id in await session.scalars(select(Tunnel.id))}

    async def gateways(self) -> list[str]:
        """The gateways of the resource `shop`; none if it is withdrawn."""
        answer = await self.world.admin.get("/api/v1/resources/shop")
        return answer.json()["gateways"] if answer.is_success else []

    async def clear(self) -> None:
        if await self.gateways():
            await self.world.rest("DELETE", "/resources/shop")


class Ending(abc.ABC):
    """A way for a tunnel to end. `fewest`: its least number of steps."""

    fewest: int

    async def begin(self, scene: Scene) -> str:
        return await scene.opened()

    @abc.abstractmethod
    async def end(self, scene: Scene, tunnel: str) -> None: ...

    @abc.abstractmethod
    async def left(self, scene: Scene, tunnel: str) -> set[str]:
        """After a death in the midst of it: the tunnels that go on."""


class Idle(Ending):
    fewest = 3

    async def begin(self, scene: Scene) -> str:
        return await scene.opened(idle_seconds=1)

    async def end(self, scene: Scene, tunnel: str) -> None:
        await until(scene.tunnels, lambda found: tunnel not in found, 30)

    async def left(self, scene: Scene, tunnel: str) -> set[str]:
        return set()


class Revoked(Ending):
    fewest = 4

    async def begin(self, scene: Scene) -> str:
        scene.device = await scene.world.enrol()
        await scene.device.prove()
        return await super().begin(scene)

    async def end(self, scene: Scene, tunnel: str) -> None:
        await scene.world.rest("POST", f"/devices/{scene.device.id}/revoke")

    async def left(self, scene: Scene, tunnel: str) -> set[str]:
        shown = await scene.world.rest("GET", f"/devices/{scene.device.id}")
        return set() if shown["revoked_at"] else {tunnel}


class Withdrawn(Ending):
    fewest = 3

    async def end(self, scene: Scene, tunnel: str) -> None:
        await scene.world.rest("DELETE", "/resources/shop")

    async def left(self, scene: Scene, tunnel: str) -> set[str]:
        return {tunnel} if await scene.gateways() else set()


class Moved(Ending):
    """To where its resource is served from now on; the device opens it anew, before the death or after."""

    fewest = 7

    async def end(self, scene: Scene, tunnel: str) -> None:
        await change(scene.world, "/resources/shop", gateways=["gw-paris"])
        await scene.device.open(SHOP)

    async def left(self, scene: Scene, tunnel: str) -> set[str]:
        served = await scene.gateways()
        opened = (await scene.device.open(SHOP)).tunnel
        assert opened.gateway.name == served[0]
        assert (opened.tunnel_id == tunnel) == (served == GATEWAYS)
        return {opened.tunnel_id}


async def _epochs(world: World) -> list[int]:
    """The epochs of the gateways' leases."""
    return [(await world.rest("GET", f"/gateways/{name}"))["epoch"] for name in GATEWAYS]


def _are_later(epochs: list[int], before: list[int]) -> bool:
    return all(now > then for now, then in zip(epochs, before, strict=True))


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_controller_may_die_in_front_of_any_step(
    tmp_path: Path, database_url: str, wires: Wires
) -> None:
    settings = settings_in(tmp_path, database_url=database_url, lease_seconds=0.5)
    fuse, engine = Fuse(tmp_path / "fuse"), create_engine(database_url)
    async with mortal(settings, tmp_path / "fuse") as controller, AsyncExitStack() as rest:
        await until(lambda: listens(settings), bool, 30)
        world = await rest.enter_async_context(administering(settings, bind_database(engine)))
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        for number, name in enumerate(GATEWAYS, 1):
            port = free_port()
            await world.add_gateway(name, port, number)
            unpack(await world.rest("POST", f"/gateways/{name}/bundle"), tmp_path / name)
            await rest.enter_async_context(sluice(tmp_path / name, wires.names, port))
            await world.online(name)
        await world.add_wiki(GATEWAYS)
        other, device = await world.enrol(), await world.enrol()
        for one in (other, device):
            await one.prove()
        kept = {(await other.open()).tunnel.tunnel_id}
        for ending in (Idle(), Revoked(), Withdrawn(), Moved()):
            scene, deaths = Scene(world, device), 0
            for step in range(1, _STEPS_MAX):
                tunnel = await ending.begin(scene)
                before = await _epochs(world)
                fuse.light(step)
                dying = asyncio.create_task(controller.died())
                ended = asyncio.create_task(ending.end(scene, tunnel))
                await asyncio.wait([dying, ended], return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait([dying], timeout=_PAUSE_SECONDS)
                ended.cancel()
                with suppress(asyncio.CancelledError, CulvertError, httpx.HTTPError):
                    await ended
                if fuse.left:
                    dying.cancel()
                    break
                assert await dying == -signal.SIGKILL
                deaths += 1
                await controller.start()
                await until(lambda: listens(settings), bool, 30)
                for one in (*world.devices, scene.device):
                    one.connect()
                # The killed controller's reports of its gateways hold until its leases end.
                await until(lambda: _epochs(world), lambda now, before=before: _are_later(now, before))
                for name in GATEWAYS:
                    await world.online(name)
                await agreed(world, kept | await ending.left(scene, tunnel))
                await scene.clear()
            fuse.light(0)
            await scene.clear()
            await agreed(world, kept)
            print(f"{type(ending).__name__}: {deaths} deaths")
            assert deaths >= ending.fewest
    await engine.dispose()
