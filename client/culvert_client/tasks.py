"""A group of tasks, and a signal for changes of the daemon's state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger("culvertd")


class Tasks:
    """Logs a task's fault; `cancel` ends all tasks."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_end)
        return task

    async def cancel(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _on_end(self, task: asyncio.Task[None]) -> None:
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
        """Wait until the condition is true, at most `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                while not condition():
                    await self.next.wait()
        except TimeoutError:
            pass
