"""Tasks that outlive the call that started them. They end when the controller stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from culvert_proto import CulvertError

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class Background:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waits: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, _Result], name: str | None = None) -> asyncio.Task[_Result]:
        """Start work that `stop` lets finish."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def start_wait(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start work that waits for most of its time: `stop` cancels it."""
        self._waits.add(self.start(work, name))

    async def stop(self) -> None:
        for task in self._waits:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._waits.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, CulvertError):
            _log.error("a tunnel's task failed", exc_info=error, extra={"task": task.get_name()})
