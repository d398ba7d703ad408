"""Packets lost while the controller replaces both SAs of a tunnel each second, make-before-break (RFC 9061 section D.2).

both: sad_in, spd_in ─► acknowledged ─► both: sad_out, spd_out ─► acknowledged ─► drain ─► old deleted
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from figures import Figure
from flows import End, flowing
from gateway_entries import Tunnel
from gateways import A, B, Pair, Site, Treatment, gateways, new_tunnel
from site_to_site import targets

SECONDS = 60
DRAIN_SECONDS = 0.3
# Packets of 1,000 bytes a second, each way. bmv2 drops what finds no room in its queues of 64 packets.
RATES = {"sluice": 5000, "bmv2": 200}
# SA numbers go round: an old one is long gone when its number comes back. The first ones are the tunnels of `gateways`.
FIRST, NUMBERS = 8, 8
NAMES = ("rekey_lost", "rekey_lost_host")


async def measure(names: Sequence[str] = NAMES, seconds: int = SECONDS) -> list[Figure]:
    """For each target, and with a crypto host. Raises RuntimeError when a rekey was late, so that there were fewer than
    planned.
    """
    figures = [await _measure(name, seconds) for name in targets() if "rekey_lost" in names]
    if "rekey_lost_host" in names:
        figures.append(await _measure("sluice", seconds, crypto_hosts=1))
    return figures


async def _measure(name: str, seconds: int, crypto_hosts: int = 0) -> Figure:
    pairs = gateways(name, crypto_hosts=crypto_hosts)
    async with pairs as pair, flowing(_ends(pair), RATES[name], seconds) as flow:
        rekeys = await _rekey_each_second(pair, seconds)
        sent, received = await flow
        pair.check()
    if rekeys < seconds:
        raise RuntimeError(f"{name}: {rekeys} rekeys in {seconds} s")
    if sent < 2 * RATES[name] * seconds:
        raise RuntimeError(f"{name}: the hosts sent only {sent} packets")
    figure = "rekey_lost_host" if crypto_hosts else "rekey_lost"
    return Figure(figure, sent - received, f"packets ({name}, {rekeys} rekeys)", "packets sent", float(sent))


def _ends(pair: Pair) -> list[End]:
    address = {site: site.host(Treatment.AES) for site in (A, B)}
    return [End(pair.hosts[site], address[site], address[site.other]) for site in (A, B)]


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
