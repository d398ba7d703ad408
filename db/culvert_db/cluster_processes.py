"""The processes that work on one Postgres cluster: found by their working directory, and ended.

A postmaster is asked to stop; what does not end in its time is ended harder. Postgres's manual, "Shutting Down the Server":

    SIGINT   fast: transactions are rolled back, a checkpoint is written
    SIGQUIT  immediate: the next start recovers from the write-ahead log
    SIGKILL  to each process, because a postmaster that is killed cannot end its backends

The shared memory of a server that was killed is removed by the next server, which finds it by the data directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from culvert_db.start_failure import Cause, PostgresFailedError

_POLL_SECONDS = 0.02
_KILLED_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Step:
    """`signal` for the postmaster, and then so many seconds for all processes to end."""

    signal: signal.Signals
    seconds: float


# A checkpoint of a large cluster takes seconds.
ORDERLY = (Step(signal.SIGINT, 10.0), Step(signal.SIGQUIT, 5.0))
# Its owner's death has sent it SIGINT already. A server that gets SIGINT while it recovers from a crash can wait for ever.
ABANDONED = (Step(signal.SIGINT, 1.0), Step(signal.SIGQUIT, 3.0))


class ClusterProcesses:
    def __init__(self, data: Path) -> None:
        """`data`: the cluster's directory, which is the working directory of all its processes."""
        self._data = data

    def found(self) -> list[int]:
        """Their process ids. Other programs may have the same working directory, as an administrator's shell does."""
        try:
            data = self._data.stat()
        except FileNotFoundError:
            return []
        found: list[int] = []
        for process in Path("/proc").glob("[0-9]*"):
            # A process that ends meanwhile, a zombie, or another user's.
            with contextlib.suppress(OSError):
                if os.path.samestat((process / "cwd").stat(), data) and _program(process) == "postgres":
                    found.append(int(process.name))
        return found

    def postmaster(self) -> int | None:
        """The process that the lock file names, if it serves this cluster: a number is given to other programs later."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None
        return pid if pid in self.found() else None

    async def end(self, steps: Sequence[Step]) -> None:
        """Returns when none is left. Raises PostgresFailedError when one outlives SIGKILL, as in a disk's failed read."""
        for step in steps:
            if not self.found():
                return
            if (postmaster := self.postmaster()) is not None:
                _send(postmaster, step.signal)
            if await self._ended(step.seconds):
                return
        deadline = time.monotonic() + _KILLED_SECONDS
        # Again and again: the postmaster may make one between the look and its own end.
        while left := self.found():
            if time.monotonic() > deadline:
                numbers = ", ".join(map(str, left))
                raise PostgresFailedError(Cause.STUCK, f"processes do not end: {numbers}", self._data)
            for pid in left:
                _send(pid, signal.SIGKILL)
            await asyncio.sleep(_POLL_SECONDS)

    async def _ended(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.found():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True


def _program(process: Path) -> str:
    # What runs although its file was replaced, as by an upgrade, is marked.
    return (process / "exe").readlink().name.removesuffix(" (deleted)")


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
