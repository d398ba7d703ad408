"""Goodput through one tunnel of two gateways that hold 100,000 SAs and as many policies, over that of two without.

A tunnel has an SA and a policy in each direction: sad_in, sad_out, spd_in and spd_out each hold half of what is said above.
"""

from __future__ import annotations

import asyncio
from statistics import median

from figures import Figure, quotient
from gateways import Pair, Treatment, gateways
from p4runtime_inserts import Entries, channel, writer
from site_to_site import run

TUNNELS = 50_000  # of the 65,536 that the gateway's tables hold
FIRST = 8  # the numbers below are the pair's own
RUNS = 5
TABLES = ("sad_in", "spd_in", "sad_out", "spd_out")


async def measure() -> list[Figure]:
    """Both pairs take turns. Raises RuntimeError, RpcError."""
    async with gateways("sluice") as few, gateways("sluice", "-crowded") as many:
        await asyncio.to_thread(_crowd, many)
        goodputs: dict[int, list[float]] = {}
        for _ in range(RUNS):
            for which, pair in enumerate((few, many)):
                goodputs.setdefault(which, []).append(await run(pair, Treatment.AES))
    return [quotient("scale_ratio", median(goodputs[1]), median(goodputs[0]), "with one tunnel")]


def _crowd(pair: Pair) -> None:
    """Fills both gateways with the tunnels of others."""
    entries = Entries()
    for switch in pair.switches.values():
        with channel(pair.authority.folder, switch.address) as there:
            write = writer(there)
            for table in TABLES:
                for request in entries.batches(table, TUNNELS, first=FIRST, election_id=switch.election_id):
                    write(request)
