"""Tasks that belong together, and the signal that they and others wait for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger("culvertd")


class Tasks:
    """A fault in one is told, and all end when it is their time."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def cancel(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a task failed", exc_info=fault)


class Changes:
    """Wakes everything that waits for a change of the daemon's state."""

    def __init__(self) -> None:
        self.next = asyncio.Event()

    def tell(self) -> None:
        changed, self.next = self.next, asyncio.Event()
        changed.set()

    async def until(self, condition: Callable[[], bool], patience: float) -> None:
        """`patience` in seconds."""
        try:
            async with asyncio.timeout(patience):
                while not condition():
                    await self.next.wait()
        except TimeoutError:
            pass
