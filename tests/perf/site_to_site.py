"""TCP through two gateways with bypass, NULL and AES: figure 19(a) of Hauser et al., "P4-IPsec: Site-to-Site and
Host-to-Site VPN with IPsec in P4-Based SDN". AES once more with UDP around it: many datagrams of a flow cross a link as one
super-frame, packets of ESP do not."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from statistics import median

from figures import Figure, quotient
from gateways import A, B, Pair, Treatment, gateways
from iperf import goodput

RUNS = 5
SECONDS = 3


def targets() -> list[str]:
    """The switches of this machine."""
    return ["sluice", *(["bmv2"] if shutil.which("simple_switch_grpc") else [])]


async def measure(treatments: list[Treatment], bmv2_ratio: bool = False) -> list[Figure]:
    """Goodput of each treatment, on each target beside its own bypass, and sluice's beside bmv2's; with `bmv2_ratio` AES on
    sluice over AES on bmv2. Runs of all targets and treatments take turns, so that all see the same machine. Raises
    RuntimeError."""
    measured = {Treatment.BYPASS: None} if treatments else {}
    measured |= dict.fromkeys([*treatments, *([Treatment.AES] if bmv2_ratio else [])])
    results: dict[tuple[str, Treatment], list[float]] = {}
    async with contextlib.AsyncExitStack() as stack:
        pairs = {name: await stack.enter_async_context(gateways(name)) for name in targets()}
        for _ in range(RUNS):
            for treatment in measured:
                for name, pair in pairs.items():
                    results.setdefault((name, treatment), []).append(await run(pair, treatment))
    at = {key: median(values) for key, values in results.items()}
    figures: list[Figure] = []
    for treatment in treatments:
        name = f"goodput_{treatment.name.lower()}_mbit_s"
        ours, bypass = at["sluice", treatment], at["sluice", Treatment.BYPASS]
        theirs = at.get(("bmv2", treatment))
        if treatment is not Treatment.BYPASS:
            figures.append(Figure(name, ours, "Mbit/s", "bypass", bypass))
        if theirs is not None:
            figures.append(Figure(name, ours, "Mbit/s", "bmv2", theirs))
            if treatment is not Treatment.BYPASS:
                of = at["bmv2", Treatment.BYPASS]
                figures.append(Figure(name, theirs, "Mbit/s (bmv2)", "bypass (bmv2)", of))
        elif treatment is Treatment.BYPASS:
            figures.append(Figure(name, ours, "Mbit/s"))
    if bmv2_ratio and "bmv2" in targets():
        ours, theirs = (at[name, Treatment.AES] for name in ("sluice", "bmv2"))
        figures.append(quotient("bmv2_ratio", ours, theirs, "bmv2"))
    return figures


async def run(pair: Pair, treatment: Treatment) -> float:
    """Goodput from A's host to B's, Mbit/s. Raises RuntimeError."""
    source, target = A.host(treatment), B.host(treatment)
    try:
        return await asyncio.to_thread(goodput, pair.hosts[A], pair.hosts[B], target, SECONDS, source=source)
    finally:
        pair.check()
