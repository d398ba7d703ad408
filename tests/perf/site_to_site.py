"""TCP through two gateways with bypass, NULL and AES: figure 19(a) of Hauser et al., "P4-IPsec: Site-to-Site and
Host-to-Site VPN with IPsec in P4-Based SDN".

`goodput_…` is packet by packet on both switches, as in the paper: what a treatment costs. `superframe_…` is sluice with the
kernel's offloads, as it is run: what a user gets. There AES comes once more with UDP around it, because many datagrams of a
flow cross a link as one super-frame, and packets of ESP do not.
"""

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
PAPER = (Treatment.BYPASS, Treatment.NULL, Treatment.AES)
PLAIN = {f"goodput_{treatment.name.lower()}_mbit_s": treatment for treatment in PAPER}
SUPERFRAME = {f"superframe_{treatment.name.lower()}_mbit_s": treatment for treatment in Treatment}
NAMES = (*PLAIN, *SUPERFRAME, "bmv2_ratio")
OURS, THEIRS, BEST = "sluice", "bmv2", "sluice with super-frames"


def targets() -> list[str]:
    """The switches of this machine."""
    return [OURS, *([THEIRS] if shutil.which("simple_switch_grpc") else [])]


async def measure(names: list[str]) -> list[Figure]:
    """Measure the figures `names`, of NAMES. Runs of all switches and treatments take turns, so that all see the same
    machine. Raises RuntimeError."""
    at = await _measured(names)
    figures: list[Figure] = []
    for name, treatment in PLAIN.items():
        if name in names:
            figures += _beside(name, treatment, OURS, at)
            if treatment is not Treatment.BYPASS and (THEIRS, treatment) in at:
                figures.append(_of_bypass(name, treatment, THEIRS, at))
    for name, treatment in SUPERFRAME.items():
        if name in names:
            figures += _beside(name, treatment, BEST, at)
    if "bmv2_ratio" in names and THEIRS in targets():
        figures.append(quotient("bmv2_ratio", at[BEST, Treatment.AES], at[THEIRS, Treatment.AES], THEIRS))
    return figures


async def _measured(names: list[str]) -> dict[tuple[str, Treatment], float]:
    """Medians, Mbit/s."""
    plain = {treatment for name, treatment in PLAIN.items() if name in names}
    best = {treatment for name, treatment in SUPERFRAME.items() if name in names}
    best |= {Treatment.AES} if "bmv2_ratio" in names else set()
    beside = (plain | best) & {*PAPER}
    wanted = {OURS: plain, THEIRS: beside if THEIRS in targets() else set[Treatment](), BEST: best}
    results: dict[tuple[str, Treatment], list[float]] = {}
    async with contextlib.AsyncExitStack() as stack:
        pairs: dict[str, Pair] = {}
        for switch in (switch for switch, treatments in wanted.items() if treatments):
            wanted[switch].add(Treatment.BYPASS)
            kind, label = (OURS, "-best") if switch == BEST else (switch, "")
            pair = gateways(kind, label, plain_frames=switch != BEST)
            pairs[switch] = await stack.enter_async_context(pair)
        for _ in range(RUNS):
            for treatment in Treatment:
                for switch, pair in pairs.items():
                    if treatment in wanted[switch]:
                        results.setdefault((switch, treatment), []).append(await run(pair, treatment))
    return {key: median(values) for key, values in results.items()}


def _beside(
    name: str, treatment: Treatment, switch: str, at: dict[tuple[str, Treatment], float]
) -> list[Figure]:
    """Beside the same switch's bypass, and beside bmv2."""
    ours, theirs = at[switch, treatment], at.get((THEIRS, treatment))
    figures = [] if treatment is Treatment.BYPASS else [_of_bypass(name, treatment, switch, at)]
    if theirs is not None:
        figures.append(Figure(name, ours, "Mbit/s", THEIRS, theirs))
    return figures or [Figure(name, ours, "Mbit/s")]


def _of_bypass(
    name: str, treatment: Treatment, switch: str, at: dict[tuple[str, Treatment], float]
) -> Figure:
    unit, baseline = ("Mbit/s (bmv2)", "bypass (bmv2)") if switch == THEIRS else ("Mbit/s", "bypass")
    return Figure(name, at[switch, treatment], unit, baseline, at[switch, Treatment.BYPASS])


async def run(pair: Pair, treatment: Treatment) -> float:
    """Goodput from A's host to B's, Mbit/s. Raises RuntimeError."""
    source, target = A.host(treatment), B.host(treatment)
    try:
        return await asyncio.to_thread(goodput, pair.hosts[A], pair.hosts[B], target, SECONDS, source=source)
    finally:
        pair.check()
