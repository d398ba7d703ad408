"""Two controllers are upgraded one after the other while devices click: nobody is refused (docs/upgrades.md).

                 ┌── one: N ──► N+1 ──┐
devices ── click ┤                    ├── Postgres: schema of N ──► of N+1        sluice
                 └── two: N ──────► N+1 ┘
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from culvert_db import bind_database, create_engine
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason
from culvert_service.config import Settings
from sqlalchemy import text

from .conftest import Device, World, administering, settings_in
from .gateway_process import ROOT, needs_root, sluice, unpack
from .next_release import next_release
from .test_controllers import process
from .wire import Wires

pytestmark = [pytest.mark.slow, needs_root]

CLICKS, DEVICES = 1000, 4
# Two calls for each click stay below a device's `agent_calls_per_second`.
CLICK_SECONDS = 0.15
RESULT = ROOT / "build/fleet.json"


class Clicks:
    """`refused`: the clicks that no controller has carried out, with the reasons."""

    def __init__(self) -> None:
        self.made, self.longest, self.refused = 0, 0.0, Counter[str]()
        self.enough = asyncio.Event()
        self._counted = asyncio.Condition()

    async def make(self, device: Device, others: list[Device]) -> None:
        """One after the other. As a device does, which knows each controller: the next one when one cannot be reached."""
        ways = itertools.cycle([device, *others])
        way = next(ways)
        while not self.enough.is_set():
            began = time.monotonic()
            for last in (False, True):
                try:
                    opened = await way.open()
                    await way.close(opened.tunnel.tunnel_id)
                    break
                except CulvertError as error:
                    if last or error.reason is not Reason.CONTROLLER_UNREACHABLE:
                        self.refused[error.reason.name] += 1
                        break
                    way = next(ways)
                    way.connect()
            self.longest = max(self.longest, time.monotonic() - began)
            async with self._counted:
                self.made += 1
                self._counted.notify_all()
            await asyncio.sleep(max(0.0, CLICK_SECONDS - (time.monotonic() - began)))

    async def after(self, more: int) -> None:
        wanted = self.made + more
        async with self._counted:
            await self._counted.wait_for(lambda: self.made >= wanted)


async def end(child: asyncio.subprocess.Process) -> None:
    child.send_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await child.wait() == 0


async def prepare(world: World, wires: Wires, directory: Path, stack: AsyncExitStack) -> list[Device]:
    await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), directory / "gateway")
    await stack.enter_async_context(sluice(directory / "gateway", wires.names, port))
    await world.online("gw-berlin")
    await world.add_wiki(["gw-berlin"])
    devices = [await world.enrol() for _ in range(DEVICES)]
    for device in devices:
        await device.prove()
    return devices


@pytest.mark.timeout(600)
async def test_nobody_is_refused_during_a_rolling_upgrade(
    wires: Wires, tmp_path: Path, database_url: str
) -> None:
    one, two = (
        settings_in(tmp_path, database_url=database_url, controller_name=name) for name in ("one", "two")
    )
    modules, clicks = next_release(tmp_path / "next"), Clicks()
    engine = create_engine(database_url)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.dispose)

        async def start(settings: Settings, modules: str = "") -> asyncio.subprocess.Process:
            return await stack.enter_async_context(process(settings, modules))

        old = [await start(one), await start(two)]
        world = await stack.enter_async_context(administering(one, bind_database(engine)))
        devices = await prepare(world, wires, tmp_path, stack)
        async with asyncio.TaskGroup() as clicking:
            for number, device in enumerate(devices):
                ways = [device, device.at(two.agent_address)]
                if number % 2:
                    ways.reverse()
                clicking.create_task(clicks.make(ways[0], ways[1:]))
            for settings, child in zip((one, two), old, strict=True):
                await clicks.after(CLICKS // 5)
                await end(child)
                await clicks.after(10)
                await start(settings, modules)
                # Both releases beside each other, then the new one alone.
                await clicks.after(CLICKS // 5)
            await clicks.after(max(10, CLICKS - clicks.made))
            clicks.enough.set()
        async with engine.connect() as connection:
            assert await connection.scalar(text("SELECT version_num FROM alembic_version")) == "9001"
            live = (await connection.execute(text("SELECT name, revision FROM controllers"))).all()
        assert sorted(map(tuple, live)) == [("one", "9001"), ("two", "9001")]
    refused = sum(clicks.refused.values())
    found: dict[str, object] = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    found |= {
        "controller_upgrade_clicks": clicks.made,
        "controller_upgrade_refused": refused,
        "controller_upgrade_longest_click_s": round(clicks.longest, 2),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    assert refused == 0, clicks.refused
    assert clicks.made >= CLICKS
