"""`roam_ms`: from a laptop's move behind another NAT to the next part of its download, all parts real.

The link it leaves goes down without a word, and the one it comes to has the same addresses.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

import downloads
from culvert_lab.homes import homes
from culvert_lab.office import open_office
from figures import Figure

MOVES = 5
# Between two moves, so that each begins with a download that flows.
FLOWS_SECONDS = 1.5


async def measure() -> list[Figure]:
    """The median of MOVES. Raises StepError, ProgramError, RuntimeError, TimeoutError."""
    took: list[float] = []
    async with open_office() as office, homes() as home:
        # The laptop has just moved once.
        await asyncio.sleep(FLOWS_SECONDS)
        if (done := await office.fetch(seconds=20)).code != 0:
            raise RuntimeError(done.stderr)
        async with downloads.running(office.lab) as download:
            for _ in range(MOVES):
                await download.first_after(time.perf_counter())
                await asyncio.sleep(FLOWS_SECONDS)
                moved = time.perf_counter()
                await home.move()
                # Packets that are already here are read within this time.
                took.append(await download.first_after(moved + 0.02) - moved)
    if not download.whole:
        raise RuntimeError("the download lost a part")
    return [Figure("roam_ms", median(took) * 1e3, "ms")]
