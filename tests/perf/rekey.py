"""Packets lost while the controller replaces both SAs of a tunnel each second, make-before-break (RFC 9061 section D.2).

both: sad_in, spd_in ─► acknowledged ─► both: sad_out, spd_out ─► acknowledged ─► drain ─► old deleted
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from figures import Figure
from gateway_entries import Tunnel
from gateways import A, B, Pair, Site, Treatment, gateways, new_tunnel
from site_to_site import targets

FLOW = Path(__file__).with_name("flow.py")
SECONDS = 60
DRAIN_SECONDS = 0.3
# Packets of 1,000 bytes a second, each way. bmv2 drops what finds no room in its queues of 64 packets.
RATES = {"sluice": 5000, "bmv2": 200}
# SA numbers go round: an old one is long gone when its number comes back. The first ones are the tunnels of `gateways`.
FIRST, NUMBERS = 8, 8


async def measure(seconds: int = SECONDS) -> list[Figure]:
    """One figure a target. Raises RuntimeError when a rekey was late, so that there were fewer than said."""
    return [await _measure(name, seconds) for name in targets()]


async def _measure(name: str, seconds: int) -> Figure:
    async with gateways(name) as pair, _flow(pair, RATES[name], seconds) as flow:
        rekeys = await _rekey_each_second(pair, seconds)
        sent, received = await flow
        pair.check()
    if rekeys < seconds:
        raise RuntimeError(f"{name}: {rekeys} rekeys in {seconds} s")
    if sent < 2 * RATES[name] * seconds:
        raise RuntimeError(f"{name}: the hosts sent only {sent} packets")
    return Figure(
        "rekey_lost", sent - received, f"packets ({name}, {rekeys} rekeys)", "packets sent", float(sent)
    )


async def _rekey_each_second(pair: Pair, seconds: int) -> int:
    loop = asyncio.get_running_loop()
    began, rekeys, old = loop.time(), 0, pair.tunnels[Treatment.AES]
    for second in range(seconds):
        await asyncio.sleep(max(0.0, began + second + 0.5 - loop.time()))
        if loop.time() > began + seconds:
            break
        new = new_tunnel(Treatment.AES, FIRST + second % NUMBERS)
        await _rekey(pair, old, new)
        old, rekeys = new, rekeys + 1
    return rekeys


async def _rekey(pair: Pair, old: dict[Site, Tunnel], new: dict[Site, Tunnel]) -> None:
    sites = [(switch, old[site], new[site]) for site, switch in pair.switches.items()]
    await asyncio.gather(*(switch.insert([made.sad_in(), made.spd_in()]) for switch, _, made in sites))
    await asyncio.gather(*(switch.insert([made.sad_out()]) for switch, _, made in sites))
    await asyncio.gather(*(switch.modify([made.spd_out()]) for switch, _, made in sites))
    await asyncio.sleep(DRAIN_SECONDS)
    for switch, gone, _ in sites:
        await switch.delete([gone.sad_out(), gone.spd_in(), gone.sad_in()])


@contextlib.asynccontextmanager
async def _flow(pair: Pair, rate: int, seconds: int) -> AsyncGenerator[asyncio.Task[tuple[int, int]]]:
    """Both hosts send to each other. The task ends with the packets sent and received, of both."""
    ends: list[asyncio.subprocess.Process] = []
    try:
        for site in (A, B):
            addresses = [it.host(Treatment.AES) for it in (site, site.other)]
            command = ["ip", "netns", "exec", pair.hosts[site]]
            # One packet before: the hosts then know their gateways' MAC addresses.
            ping = [*command, "ping", "-q", "-c", "1", "-I", addresses[0], addresses[1]]
            await (await asyncio.create_subprocess_exec(*ping, stdout=asyncio.subprocess.DEVNULL)).wait()
            command += [sys.executable, "-I", str(FLOW), *addresses, str(rate), str(seconds)]
            pipe = asyncio.subprocess.PIPE
            ends.append(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))
        for end in ends:
            if end.stdout is None or await end.stdout.readline() != b"ready\n":
                raise RuntimeError("a host could not open its flow")
        yield asyncio.create_task(_begin(ends))
    finally:
        for end in ends:
            with contextlib.suppress(ProcessLookupError):
                end.kill()
            await end.wait()


async def _begin(ends: list[asyncio.subprocess.Process]) -> tuple[int, int]:
    answers = await asyncio.gather(*(end.communicate(b"go\n") for end in ends))
    counts = [json.loads(output) for output, _ in answers]
    return sum(it["sent"] for it in counts), sum(it["received"] for it in counts)
