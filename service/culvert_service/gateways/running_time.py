"""Deadlines for answers that do not count pauses of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

_LOOK_SECONDS = 0.05


@asynccontextmanager
async def running_time(seconds: float) -> AsyncGenerator[None]:
    """`asyncio.timeout`, extended by each pause of the event loop: a pause here must not make a peer look silent."""
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
