"""Deadlines for what others answer, by the time in which this process ran."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

_LOOK_SECONDS = 0.05


@asynccontextmanager
async def running_time(seconds: float) -> AsyncGenerator[None]:
    """`asyncio.timeout`, put off by each pause of the loop: while this process stands still nobody is silent."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds) as limit:

        def look(due: float) -> None:
            nonlocal looking
            deadline, late = limit.when(), loop.time() - due
            if deadline is not None and late > _LOOK_SECONDS:
                limit.reschedule(deadline + late)
            looking = soon()

        def soon() -> asyncio.TimerHandle:
            due = loop.time() + _LOOK_SECONDS
            return loop.call_at(due, look, due)

        looking = soon()
        try:
            yield
        finally:
            looking.cancel()
