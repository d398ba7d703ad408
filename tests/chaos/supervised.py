"""Restarts a part of the lab as its unit file does: after each end, with the pause of its RestartSec=, and nothing more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from culvert_lab.errors import LabError
from culvert_lab.process import Running

# RestartSec= of deploy/systemd, and of Debian's units for the parts of others.
RESTART_SECONDS = {"controller": 3.0, "culvertd": 3.0, "gateway": 2.0, "dns-updater": 5.0}
_OTHERS_SECONDS = 1.0
_POLL_SECONDS = 0.05

# Starts the part; returns when it says that it is ready.
Start = Callable[[str], Awaitable[Running]]


class Supervised:
    """`kind` is a key of RESTART_SECONDS, or of another's program; `name` by default. Each run has a log of its own."""

    def __init__(self, name: str, program: Running, start: Start, kind: str = "") -> None:
        self.name = name
        self.pause = RESTART_SECONDS.get(kind or name, _OTHERS_SECONDS)
        self.program = program
        self.starts = 1
        self._start = start
        self._task = asyncio.create_task(self._keep(), name=f"supervise {name}")

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _keep(self) -> None:
        while True:
            while self.program.code is None:  # noqa: ASYNC110  of another process
                await asyncio.sleep(_POLL_SECONDS)
            await asyncio.sleep(self.pause)
            self.starts += 1
            # A part that does not start is started again, as systemd does.
            with suppress(LabError):
                self.program = await self._start(f"{self.name}-{self.starts}")


class Outages:
    """The times when a part reported that it was not ready, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._spans: list[list[float | None]] = []

    def begin(self) -> int:
        """Begins an outage, at a kill. Returns its number."""
        self._spans.append([time.monotonic(), None])
        return len(self._spans) - 1

    def end(self, number: int) -> float:
        """Ends an outage, when all parts are ready. Returns its length in seconds."""
        began = self._spans[number][0]
        assert began is not None
        self._spans[number][1] = now = time.monotonic()
        return now - began

    def overlap(self, began: float, ended: float) -> bool:
        return any(
            start is not None and start <= ended and (end is None or end >= began)
            for start, end in self._spans
        )
