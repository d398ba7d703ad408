"""Work beside the calls: in rounds, for as long as the controller runs; or once, longer than the call that started it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from culvert_proto import CulvertError

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

# The longest normal round: waits for the database or a gateway end much earlier with an error.
_STUCK_SECONDS = 60.0
# A fault is logged again when it was absent for longer. Not after one good round: not every round reaches the database.
_ABSENT_SECONDS = 60.0


class Pace:
    """The rest after work that takes at most a share of the time.

    A single long round is a stall of the process, the database or a gateway. The shorter of two in a row counts.
    """

    def __init__(self, rests: float) -> None:
        """`rests`: the rest's length as a multiple of the work's."""
        self._rests, self._last = rests, 0.0

    def rest_after(self, took: float) -> float:
        """Both in seconds."""
        shorter, self._last = min(took, self._last), took
        return self._rests * shorter


class Periodic:
    """A round of `work` begins `seconds` after the previous one has ended, or when it is woken.

    Errors of a round are logged and do not stop later rounds; a lasting fault is logged once.
    """

    def __init__(self, name: str, work: Callable[[], Awaitable[object]], seconds: float) -> None:
        self._name = name
        self._work = work
        self._seconds = seconds
        self._awake = asyncio.Event()
        self._stopping = False
        self._last_seen: dict[object, float] = {}
        self._round_began: float | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether a round lasts too long, or the task of the rounds has died."""
        ended = self._task is not None and self._task.done() and not self._stopping
        began = self._round_began
        return ended or (began is not None and time.monotonic() - began > _STUCK_SECONDS)

    @property
    def name(self) -> str:
        return self._name

    def start(self) -> None:
        """The first round begins after `seconds`."""
        self._task = asyncio.create_task(self._rounds(), name=self._name)

    def wake(self) -> None:
        self._awake.set()

    async def stop(self) -> None:
        """Returns when the current round has ended."""
        self._stopping = True
        self._awake.set()
        if self._task is not None:
            await self._task

    async def _rounds(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._awake.wait()
            if self._stopping:
                return
            self._awake.clear()
            await self._round()

    async def _round(self) -> None:
        self._round_began = time.monotonic()
        try:
            await self._work()
        except Exception as error:
            self._tell(error)
        finally:
            self._round_began = None

    def _tell(self, error: Exception) -> None:
        """Log a typed fault in a line, any other with its traceback; each kind once as long as it lasts."""
        kind = error.reason if isinstance(error, CulvertError) else (type(error), _place(error))
        now = time.monotonic()
        lasts = now - self._last_seen.get(kind, -_ABSENT_SECONDS) < _ABSENT_SECONDS
        self._last_seen[kind] = now
        if lasts:
            return
        if isinstance(error, CulvertError):
            why = {"reason": error.reason.name, "why": error.message}
            _log.warning("a round failed", extra={"work": self._name} | why)
        else:
            _log.error("a round failed", exc_info=error, extra={"work": self._name})


class Background:
    """Tasks that outlive the call that started them. They end when the controller stops."""

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


def _place(error: Exception) -> tuple[str, int]:
    """The place where the error was raised."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return (frames[-1][0].f_code.co_filename, frames[-1][1]) if frames else ("", 0)
