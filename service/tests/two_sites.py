"""Two sluices with a host behind each, joined by a wire.

host-a ──── lan gw-berlin wan ═════════ wan gw-paris lan ──── host-b
10.1.0.10   10.1.0.1      198.51.100.1  198.51.100.2 10.2.0.1 10.2.0.10
namespace   this namespace               this namespace       namespace
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from culvert_db import SecurityAssociation
from culvert_lab.free_port import free_port
from culvert_service.site_tunnels import repository
from sqlalchemy import update

from .conftest import World
from .gateway_process import ROOT, sluice, unpack
from .wire import ip

BERLIN, PARIS = "gw-berlin", "gw-paris"
NUMBERS = {BERLIN: 1, PARIS: 2}
_FLOW = ROOT / "tests/perf/flow.py"


def host(gateway: str) -> str:
    return f"10.{NUMBERS[gateway]}.0.10"


def described(name: str = "berlin-paris", **fields: object) -> dict[str, Any]:
    """The body of POST /site-tunnels."""
    ends = [{"gateway": it, "targets": [{"prefix": f"10.{NUMBERS[it]}.0.0/24"}]} for it in NUMBERS]
    return {"name": name, "ends": ends, "owner": "bob@corp.example"} | fields


@dataclass
class Sites:
    """`ports`: where each gateway's P4Runtime is; `spaces`: the namespace of each host."""

    directory: Path
    ports: dict[str, int]
    spaces: dict[str, str]
    wires: dict[str, tuple[str, str]]

    @asynccontextmanager
    async def running(self, *gateways: str) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for name in gateways:
                started = sluice(self.directory / name, self.wires[name], self.ports[name])
                await stack.enter_async_context(started)
            yield

    async def ping(self, source: str) -> bool:
        """From the host behind that gateway to the other one."""
        target = host(PARIS if source == BERLIN else BERLIN)
        command = ("netns", "exec", self.spaces[source], "ping", "-q", "-c", "1", "-W", "1", target)
        process = await asyncio.create_subprocess_exec("ip", *command, stdout=DEVNULL)
        return await process.wait() == 0

    async def flow(self, rate: int, seconds: float) -> list[dict[str, int]]:
        """UDP both ways at once, packets a second each: what each host has `sent` and `received`."""
        ends: list[asyncio.subprocess.Process] = []
        for own, other in ((BERLIN, PARIS), (PARIS, BERLIN)):
            program = (sys.executable, "-I", str(_FLOW), host(own), host(other), str(rate), str(seconds))
            command = ("netns", "exec", self.spaces[own], *program)
            ends.append(await asyncio.create_subprocess_exec("ip", *command, stdin=PIPE, stdout=PIPE))
        for end in ends:
            assert end.stdout is not None
            assert await end.stdout.readline() == b"ready\n"
        answers = await asyncio.gather(*(end.communicate(b"go\n") for end in ends))
        return [json.loads(output) for output, _ in answers]


async def register(
    world: World, directory: Path, sites: Sites, *gateways: str, **addresses: dict[str, str]
) -> None:
    """Register the given gateways, or both. `addresses`: by the field's name, each gateway's."""
    for name in gateways or NUMBERS:
        number = NUMBERS[name]
        other = 3 - number
        await world.add_gateway(
            name,
            sites.ports[name],
            number,
            wan={"port": 1, "mac": f"02:00:00:00:01:0{number}", "next_hop_mac": f"02:00:00:00:01:0{other}"},
            lan={
                "port": 2,
                "mac": f"02:00:00:00:02:0{number}",
                "address": f"10.{number}.0.1",
                "prefix": f"10.{number}.0.0/24",
                "neighbours": {host(name): f"02:00:00:00:03:0{number}"},
            },
            **{field: of_each[name] for field, of_each in addresses.items()},
        )
        unpack(await world.rest("POST", f"/gateways/{name}/bundle"), directory / name)


async def grow_old(world: World) -> None:
    """All keys have served for an hour."""
    made = SecurityAssociation.made_at - datetime.timedelta(hours=1)
    async with world.database.begin() as session:
        await session.execute(update(SecurityAssociation).values(made_at=made))
        await repository.tell(session)


@asynccontextmanager
async def laid(directory: Path) -> AsyncGenerator[Sites]:
    """Wires and hosts; the gateways are the caller's to register and to start."""
    number = os.getpid() % 10**6
    spaces = {name: f"cvhost{which}-{number}" for name, which in NUMBERS.items()}
    wires = {name: (f"cvw{which}{number}", f"cvl{which}{number}") for name, which in NUMBERS.items()}
    wan = [wires[name][0] for name in NUMBERS]
    async with AsyncExitStack() as stack:
        await ip("link", "add", wan[0], "type", "veth", "peer", "name", wan[1])
        stack.push_async_callback(_gone, "link", "delete", wan[0])
        for name, space in spaces.items():
            near, far = wires[name][1], f"cvh{NUMBERS[name]}{number}"
            await ip("netns", "add", space)
            stack.push_async_callback(_gone, "netns", "delete", space)
            await ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", space)
            # The kernel takes the devices of a deleted namespace away some time later.
            stack.push_async_callback(_gone, "link", "delete", near)
            mac = f"02:00:00:00:03:0{NUMBERS[name]}"
            await ip("-n", space, "link", "set", far, "address", mac, "up")
            await ip("-n", space, "addr", "add", f"{host(name)}/24", "dev", far)
            await ip("-n", space, "route", "add", "default", "via", f"10.{NUMBERS[name]}.0.1")
            for end in wires[name]:
                await ip("link", "set", end, "up")
        yield Sites(directory, {name: free_port() for name in NUMBERS}, spaces, wires)


async def _gone(*arguments: str) -> None:
    with contextlib.suppress(AssertionError):
        await ip(*arguments)
