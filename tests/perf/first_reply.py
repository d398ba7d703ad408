"""`first_reply_ms`: no tunnel; from the first packet to the first reply through one.

Culvert     the name is asked for, the controller decides and programs the gateway, an echo goes through and comes back
strongSwan  `swanctl --initiate`, then the echo: no policy server, no name
wireguard-go  the echo, which starts the handshake: as above
"""

from __future__ import annotations

import asyncio
import sys
import time
from statistics import median

import baselines
from clicks import NAME, STUB, ask, closing, cold_clicks
from culvert_lab import parts
from culvert_lab import topology as net
from culvert_lab.netns import Inside
from culvert_lab.office import open_office
from culvert_lab.topology import Site
from echo import until_answered
from figures import Figure
from strongswan import PEER, StrongSwan, strongswan

RUNS = 30
WIREGUARD_RUNS = 10


async def measure() -> list[Figure]:
    """Medians. The two that are run by a program take turns. Raises ProgramError, StepError, RuntimeError, TimeoutError."""
    ours: list[float] = []
    theirs: list[float] = []
    async with open_office() as office:
        await cold_clicks(office, 1)
        with strongswan() as other:
            async with closing(office) as close:
                for _ in range(RUNS):
                    ours.append(await office.lab.inside(Site.LAPTOP).run(_click, f"{NAME}.{net.ZONE}"))
                    await close()
                    if other is not None:
                        theirs.append(await asyncio.to_thread(_initiate, other))
        wireguard = await asyncio.to_thread(lambda: [_handshake() for _ in range(WIREGUARD_RUNS)])
    figures: list[Figure] = []
    for name, times in (("strongswan", theirs), ("wireguard-go", [it for it in wireguard if it is not None])):
        if times:
            figures.append(Figure("first_reply_ms", median(ours), "ms", name, median(times)))
        else:
            print(f"{name} is not measured: it is not installed", file=sys.stderr)
    return figures or [Figure("first_reply_ms", median(ours), "ms")]


def _click(fqdn: str) -> float:
    began = time.perf_counter()
    ask(fqdn, STUB)
    until_answered(net.WIKI_ADDRESS)
    return (time.perf_counter() - began) * 1e3


def _initiate(other: StrongSwan) -> float:
    inside = Inside(baselines.LEFT)
    try:
        began = time.perf_counter()
        other.initiate()
        inside.call(until_answered, PEER)
        return (time.perf_counter() - began) * 1e3
    finally:
        inside.close()
        other.terminate()


def _handshake() -> float | None:
    with baselines.wireguard_go(parts.ROOT / "build") as peer:
        if peer is None:
            return None
        inside = Inside(baselines.LEFT)
        began = time.perf_counter()
        inside.call(until_answered, peer)
        inside.close()
        return (time.perf_counter() - began) * 1e3
