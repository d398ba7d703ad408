"""Verification of an audit log of 250,000 lines over REST: its seconds at an otherwise idle controller, the growth of the
controller's memory, and the median of OpenTunnel during verification over the median without it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "switch-targets/conformance"))

import long_log
from controller_rig import RESOURCES, Client, Rig, in_a_namespace, rig
from culvert_db import bind_database, create_engine
from figures import Figure, percentile

NAMES = ("audit_verify_250k_s", "audit_verify_rss_mib", "audit_verify_click_ratio")
LINES = 250_000
DEVICES = 20
ALONE = 200


async def measure(names: Sequence[str]) -> list[Figure]:
    """Measures the figures in `names`. Raises RuntimeError, CalledProcessError."""
    found = await asyncio.to_thread(in_a_namespace, __file__, "audit")
    beside, alone = found["beside_ms"], found["alone_ms"]
    figures = [
        Figure("audit_verify_250k_s", found["seconds"], "s"),
        Figure("audit_verify_rss_mib", found["after_mib"], "MiB", "before", found["before_mib"]),
        Figure("audit_verify_click_ratio", beside / alone, f"{beside:.1f} over {alone:.1f} ms", "alone", 1.0),
    ]
    return [figure for figure in figures if figure.name in names]


async def _all() -> dict[str, float]:
    async with rig() as parts:
        await _fill(parts)
        devices = await parts.devices(DEVICES)
        for device in devices:
            await device.open(0)
        jobs = itertools.cycle((device, number) for number in range(1, RESOURCES) for device in devices)
        alone = [await _timed(*next(jobs)) for _ in range(ALONE)]
        before = parts.rss_mib()
        seconds = await _verify(parts)
        verification = asyncio.create_task(_verify(parts))
        beside: list[float] = []
        while not verification.done():
            beside.append(await _timed(*next(jobs)))
        for device in devices:
            await device.close()
        return {
            "seconds": seconds,
            "before_mib": before,
            "after_mib": parts.rss_mib(),
            "alone_ms": percentile(alone, 0.50),
            "beside_ms": percentile(beside, 0.50),
        }


async def _fill(parts: Rig) -> None:
    engine = create_engine(parts.database_url())
    await long_log.fill(bind_database(engine), LINES // 16)
    await engine.dispose()


async def _verify(parts: Rig) -> float:
    """Returns the seconds of one verification. Raises RuntimeError when the log is broken."""
    async with parts.admin() as admin:
        began = time.perf_counter()
        found = (await admin.get("/audit/verification", timeout=300)).json()
    if found["broken"] is not None or found["lines"] < LINES:
        raise RuntimeError(f"the log did not verify: {found}")
    return time.perf_counter() - began


async def _timed(device: Client, number: int) -> float:
    began = time.perf_counter()
    await device.open(number)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_all())))
