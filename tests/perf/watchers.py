"""A controller with 10,000 devices on `Watch`, each with a tunnel: its memory, and a set-up there beside one at an empty
controller, in turns.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "switch-targets/conformance"))

from controller_rig import Client, each, in_a_namespace, rig
from figures import Figure, percentile

NAMES = ("watch_10k_rss_mib", "watch_10k_setup_ratio")
WATCHERS = 10_000
ALONE = 10
ROUNDS = 30


async def measure(names: Sequence[str]) -> list[Figure]:
    """The figures asked for, of NAMES. Raises RuntimeError, CalledProcessError."""
    found = await asyncio.to_thread(in_a_namespace, __file__, "watchers", 2)
    ratio = found["full_ms"] / found["empty_ms"]
    unit = f"{found['full_ms']:.1f} over {found['empty_ms']:.1f} ms"
    figures = [
        Figure("watch_10k_rss_mib", found["rss_mib"], "MiB", "empty", found["empty_mib"]),
        Figure("watch_10k_setup_ratio", ratio, unit, "empty", 1.0),
    ]
    return [figure for figure in figures if figure.name in names]


async def _all() -> dict[str, float]:
    async with rig(0) as full, rig(1) as empty:
        devices = [*await full.devices(ALONE), *await empty.devices(ALONE)]
        await each(devices, lambda device: device.open(0))
        empty_mib = empty.rss_mib()
        watchers = await full.devices(WATCHERS, addresses=True)
        await each(watchers, lambda device: device.watch())
        await each(watchers, lambda device: device.open(0))
        full_ms, empty_ms = await _setup_ms(devices[:ALONE], devices[ALONE:])
        rss_mib = full.rss_mib()
        await each([*devices, *watchers], lambda device: device.close())
    return {"empty_ms": empty_ms, "full_ms": full_ms, "empty_mib": empty_mib, "rss_mib": rss_mib}


async def _setup_ms(*rigs: Sequence[Client]) -> list[float]:
    """The median of each, to the gateway's last acknowledgement, in turns: all of them see the same machine."""
    setups: list[list[float]] = [[] for _ in rigs]
    for number in range(1, 1 + ROUNDS):
        for devices in zip(*rigs, strict=True):
            for device, found in zip(devices, setups, strict=True):
                found.append((await device.open(number)).programmed_us / 1000)
    return [percentile(found, 0.50) for found in setups]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_all())))
