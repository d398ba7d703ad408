"""TCP through a gateway whose SAs a crypto host serves, beside one that serves them itself, in the same run.

host-a ── gateway-a ═══ gateway-b ── host-b      gateway-a: its own engine, or behind a port
             ║                                   one crypto host, or two
         crypto host

Gateway B always serves its SAs itself. All programs share the machine's cores, so a host beside the gateway costs goodput
that it would not cost on a computer of its own.
"""

from __future__ import annotations

import contextlib
from statistics import median

from figures import Figure
from gateways import A, Pair, Treatment, gateways
from site_to_site import run
from usage import cpu_seconds

RUNS = 5
# Their SAs have slots at different hosts, where there are two.
BOTH = (Treatment.AES, Treatment.AES_UDP)
NAMES = ("crypto_host_mbit_s", "crypto_hosts_scale")


async def measure(names: list[str]) -> list[Figure]:
    """Raises RuntimeError."""
    goodput: dict[int, list[float]] = {}
    costs: dict[int, list[float]] = {}
    async with contextlib.AsyncExitStack() as stack:
        pairs: dict[int, Pair] = {}
        for hosts in (0, 1, *([2] if "crypto_hosts_scale" in names else [])):
            pair = gateways("sluice", f"-{hosts}", crypto_hosts=hosts)
            pairs[hosts] = await stack.enter_async_context(pair)
        for _ in range(RUNS):
            for hosts, pair in pairs.items():
                before = _cpu(pair)
                carried = [await run(pair, treatment) for treatment in BOTH]
                goodput.setdefault(hosts, []).append(carried[0])
                costs.setdefault(hosts, []).append((_cpu(pair) - before) / sum(carried))
    inline, one = median(goodput[0]), median(goodput[1])
    figures = [Figure("crypto_host_mbit_s", one, "Mbit/s", "the gateway's own engine", inline)]
    if "crypto_hosts_scale" in names:
        scale = median(costs[2]) / median(costs[1])
        figures.append(Figure("crypto_hosts_scale", scale, "processor time a gigabit", "one host", 1.0))
    return [figure for figure in figures if figure.name in names]


def _cpu(pair: Pair) -> float:
    """The seconds of gateway A and its crypto hosts."""
    return sum(cpu_seconds(target.pid) for target in (pair.targets[A], *pair.crypto_hosts))
