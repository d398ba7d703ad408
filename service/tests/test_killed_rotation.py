"""kill -9 of the controller in front of every step of a KEK's renewal: the next one ends it, and no packet is lost."""

from __future__ import annotations

import asyncio
import datetime
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from culvert_db import Gateway, bind_database, create_engine
from culvert_lab.free_port import free_port
from culvert_service.config import Settings
from sqlalchemy import update

from . import two_sites
from .agreement import agreed
from .conftest import World, administering, running, settings_in, until
from .gateway_process import needs_root, sluice, unpack
from .mortal_controller import Fuse
from .test_controllers import owned, owners, process
from .test_gateway_keys import bundle, keys, settled
from .test_kek_rotation import Laptops, only_the_new_kek_opens, replace, using, wrap_of
from .test_killed import listens, mortal
from .two_sites import BERLIN, PARIS
from .wire import Wires

pytestmark = [
    pytest.mark.slow,
    needs_root,
]

_STEPS_MAX = 60


async def registered(world: World, directory: Path, port: int) -> dict[str, Any]:
    """The bundle of gw-berlin."""
    await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
    await world.add_gateway("gw-berlin", port)
    await world.add_wiki(["gw-berlin"])
    given = await bundle(world)
    unpack(given, directory)
    return given


async def answered(world: World, method: str, path: str) -> dict[str, Any]:
    """Empty while there is no controller."""
    try:
        return await world.rest(method, path)
    except (AssertionError, httpx.HTTPError):
        return {}


async def rotated(world: World, directory: Path) -> dict[str, Any]:
    """The bundle that was installed, when its KEK is the only one."""
    given = await until(lambda: answered(world, "POST", "/gateways/gw-berlin/bundle"), bool, 60)
    replace(given, directory)
    await until(
        lambda: answered(world, "GET", "/gateways/gw-berlin"),
        lambda found: bool(found) and found["keys"]["state"] == "settled",
        60,
    )
    return given


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_controller_may_die_in_front_of_any_step(
    tmp_path: Path, database_url: str, wires: Wires
) -> None:
    settings, fuse, port, deaths = (
        settings_in(tmp_path, database_url=database_url, lease_seconds=0.5),
        Fuse(tmp_path / "fuse"),
        free_port(),
        0,
    )
    engine, directory = create_engine(database_url), tmp_path / "gateway"
    async with mortal(settings, tmp_path / "fuse") as controller:
        await until(lambda: listens(settings), bool, 30)
        async with administering(settings, bind_database(engine)) as world:
            given = await registered(world, directory, port)
            async with sluice(directory, wires.names, port):
                await world.online("gw-berlin")
                device, laptops = await world.enrol(), Laptops(wires)
                await device.prove()
                await laptops.open(device)
                async with using(laptops):
                    for step in range(1, _STEPS_MAX):
                        old = wrap_of(given)
                        fuse.light(step)
                        dying = asyncio.create_task(controller.died())
                        rotating = asyncio.create_task(rotated(world, directory))
                        await asyncio.wait([dying, rotating], return_when=asyncio.FIRST_COMPLETED)
                        survived = not dying.done()
                        if survived:
                            dying.cancel()
                        else:
                            assert await dying == -signal.SIGKILL
                            deaths += 1
                            await controller.start()
                        given = await rotating
                        await only_the_new_kek_opens(world, port, old, wrap_of(given), sas=2)
                        await agreed(world, set(laptops.tunnels))
                        if survived:
                            break
                fuse.light(0)
    await engine.dispose()
    print(f"{deaths} deaths, {len(laptops.sent['lan'])} packets each way")
    assert deaths > 10


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> tuple[Settings, Settings]:
    """Two controllers with one state."""
    one, two = (
        settings_in(tmp_path, database_url=database_url, controller_name=name, lease_seconds=5)
        for name in ("one", "two")
    )
    return one, two


@pytest.mark.timeout(180)
async def test_another_controller_ends_what_the_gateways_dead_controller_began(
    settings: tuple[Settings, Settings], wires: Wires, tmp_path: Path
) -> None:
    directory, port, laptops = tmp_path / "gateway", free_port(), Laptops(wires)
    async with AsyncExitStack() as rest:
        async with running(settings[0]) as one:
            given = await registered(one, directory, port)
        child = await rest.enter_async_context(process(settings[0]))
        two = await rest.enter_async_context(running(settings[1]))
        await rest.enter_async_context(sluice(directory, wires.names, port))
        await owned(two, "one")
        device = await two.enrol()
        await device.prove()
        await laptops.open(device)
        await rest.enter_async_context(using(laptops))
        for killed in (False, True):
            old, given = wrap_of(given), await bundle(two)
            replace(given, directory)
            await until(lambda: keys(two), lambda found: found["state"] == "rekeying")
            if killed:
                child.kill()
                await owned(two, "two")
            await settled(two)
            await only_the_new_kek_opens(two, port, old, wrap_of(given), sas=2)
        await agreed(two, set(laptops.tunnels))


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_a_site_tunnel_of_two_controllers_loses_nothing_in_kek_rotation(
    settings: tuple[Settings, Settings], tmp_path: Path
) -> None:
    async with running(settings[0]) as one, running(settings[1]) as two, two_sites.laid(tmp_path) as sites:
        await two_sites.register(one, tmp_path, sites)
        async with sites.running(BERLIN, PARIS):
            await until(lambda: owners(one), lambda found: set(found.values()) == {"one", "two"})
            for name in (BERLIN, PARIS):
                await one.online(name)
            await one.rest("POST", "/site-tunnels", two_sites.described())
            await until(lambda: sites.ping(BERLIN), bool)
            flowing = asyncio.create_task(sites.flow(rate=200, seconds=70))
            for world, name in ((one, BERLIN), (two, PARIS)):
                replace(await bundle(world, name), tmp_path / name)
            for name in (BERLIN, PARIS):
                await until(lambda: keys(one, name), lambda found: found["state"] == "settled", 60)  # noqa: B023
            assert not flowing.done()
            here, there = await flowing
            assert (here["received"], there["received"]) == (there["sent"], here["sent"])


async def test_a_controller_back_after_long_asks_for_renewals_before_closing(
    tmp_path: Path, database_url: str, wires: Wires
) -> None:
    settings, directory = settings_in(tmp_path, database_url=database_url), tmp_path / "gateway"
    port, laptops = free_port(), Laptops(wires)
    async with AsyncExitStack() as rest:
        async with running(settings) as world:
            given = await registered(world, directory, port)
            await rest.enter_async_context(sluice(directory, wires.names, port))
            await world.online("gw-berlin")
            device = await world.enrol()
            await device.prove()
            await laptops.open(device)
            old, given = wrap_of(given), await bundle(world)
            replace(given, directory)
            await until(lambda: keys(world), lambda found: found["state"] == "rekeying")
            async with world.database.begin() as session:
                since = Gateway.rekeying_since - datetime.timedelta(days=1)
                await session.execute(update(Gateway).values(rekeying_since=since))
        device.connect()
        async with running(settings) as world, using(laptops):
            await settled(world)
            await only_the_new_kek_opens(world, port, old, wrap_of(given), sas=2)
            await agreed(world, set(laptops.tunnels))
        await device.channel.close()
