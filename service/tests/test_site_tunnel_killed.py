"""kill -9 of the controller in front of every step of a renewal between two gateways: no packet is lost."""

from __future__ import annotations

import asyncio
import re
import signal
from asyncio.subprocess import PIPE
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from culvert_db import SecurityAssociation, bind_database, create_engine
from sqlalchemy import select

from . import two_sites
from .conftest import World, administering, settings_in, until
from .gateway_process import needs_root
from .mortal_controller import Fuse
from .test_killed import listens, mortal
from .two_sites import BERLIN, PARIS, host

pytestmark = [
    pytest.mark.slow,
    needs_root,
]

_STEPS_MAX = 50


async def state(world: World) -> dict[str, Any]:
    """The API's answer, with each gateway's SPIs beside those of the rows; empty while the tunnel is not up."""
    try:
        shown = await world.rest("GET", "/site-tunnels/berlin-paris")
        if shown["state"] != "up":
            return {}
        gateways = await world.rest("GET", "/gateways")
        entries = [
            (await world.rest("GET", f"/gateways/{name}/entries"))["entries"] for name in (BERLIN, PARIS)
        ]
    except (AssertionError, httpx.HTTPError):
        return {}
    async with world.database() as session:
        rows = (await session.scalars(select(SecurityAssociation))).all()
    return {
        "generation": shown["generation"],
        "online": all(it["state"] == "online" for it in gateways),
        "generations": {row.generation for row in rows},
        "wanted": sorted(row.spi for row in rows if row.direction == "to_gateway"),
        "held": sorted(it["match"]["spi"] for side in entries for it in side if it["table"] == "sad_in"),
        "counts": [sum(it["table"].startswith(("sad", "spd")) for it in side) for side in entries],
    }


def settled(found: dict[str, Any], *, beyond: int = 0) -> bool:
    return (
        bool(found)
        and found["online"]
        and found["generation"] > beyond
        and found["generations"] == {found["generation"]}
        and found["wanted"] == found["held"]
        and found["counts"] == [4, 4]
    )


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_controller_may_die_in_front_of_any_step(tmp_path: Path, database_url: str) -> None:
    settings, fuse = (
        settings_in(tmp_path, database_url=database_url, lease_seconds=1),
        Fuse(tmp_path / "fuse"),
    )
    engine = create_engine(database_url)
    deaths = 0
    async with mortal(settings, tmp_path / "fuse") as controller, two_sites.laid(tmp_path) as sites:
        await until(lambda: listens(settings), bool, 30)
        async with administering(settings, bind_database(engine)) as world:
            await two_sites.register(world, tmp_path, sites)
            async with sites.running(BERLIN, PARIS):
                await world.rest("POST", "/site-tunnels", two_sites.described())
                found = await until(lambda: state(world), settled, 30)
                command = ("netns", "exec", sites.spaces[BERLIN], "ping", "-q", "-i", "0.02", host(PARIS))
                ping = await asyncio.create_subprocess_exec("ip", *command, stdout=PIPE)
                for step in range(1, _STEPS_MAX):
                    fuse.light(step)
                    await two_sites.grow_old(world)
                    dying = asyncio.create_task(controller.died())
                    beyond = partial(settled, beyond=found["generation"])
                    renewed = asyncio.create_task(until(lambda: state(world), beyond, 60))
                    await asyncio.wait([dying, renewed], return_when=asyncio.FIRST_COMPLETED)
                    if renewed.done():
                        dying.cancel()
                        break
                    assert await dying == -signal.SIGKILL
                    deaths += 1
                    await controller.start()
                    found = await renewed
                fuse.light(0)
                ping.send_signal(signal.SIGINT)
                said = (await ping.communicate())[0].decode()
                sent, received = map(int, re.findall(r"(\d+) (?:packets transmitted|received)", said))
                # The last packet may be under way.
                assert sent - received <= 1, said
    await engine.dispose()
    print(f"{deaths} deaths, {sent} packets")
    assert deaths >= 8
