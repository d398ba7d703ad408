"""Finds the processes of one Postgres cluster by their working directory, and ends them.

The postmaster gets a signal; when processes are left after a time, the next, harder signal follows (Postgres's manual,
"Shutting Down the Server"):

    SIGINT   fast: transactions are rolled back, a checkpoint is written
    SIGQUIT  immediate: the next start recovers from the write-ahead log
    SIGKILL  to each process, because a postmaster that is killed cannot end its backends

The next server of the data directory removes the shared memory of a killed server.
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
class EndingStep:
    """A signal for the postmaster, and the time in which all processes should end."""

    signal: signal.Signals
    seconds: float


# A checkpoint of a large cluster takes seconds.
ORDERLY = (EndingStep(signal.SIGINT, 10.0), EndingStep(signal.SIGQUIT, 5.0))
# The owner's death has already sent SIGINT. A server that gets SIGINT during crash recovery may never end, so SIGQUIT
# follows soon.
ABANDONED = (EndingStep(signal.SIGINT, 1.0), EndingStep(signal.SIGQUIT, 3.0))


class ClusterProcesses:
    def __init__(self, data: Path) -> None:
        """`data` is the cluster's directory. All its processes have it as their working directory."""
        self._data = data

    def find(self) -> list[int]:
        """The ids of the cluster's processes. Skips other programs in this directory, such as an administrator's shell."""
        try:
            data = self._data.stat()
        except FileNotFoundError:
            return []
        found: list[int] = []
        for process in Path("/proc").glob("[0-9]*"):
            # A process may end meanwhile, be a zombie, or belong to another user.
            with contextlib.suppress(OSError):
                if os.path.samestat((process / "cwd").stat(), data) and _program(process) == "postgres":
                    found.append(int(process.name))
        return found

    def postmaster(self) -> int | None:
        """The process in the lock file, if it belongs to this cluster: the id may have become another program's."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None
        return pid if pid in self.find() else None

    async def end(self, steps: Sequence[EndingStep]) -> None:
        """Returns when no process is left. Raises PostgresFailedError when one outlives SIGKILL, waiting for a disk."""
        for step in steps:
            if not self.find():
                return
            if (postmaster := self.postmaster()) is not None:
                _send(postmaster, step.signal)
            if await self._wait_end(step.seconds):
                return
        deadline = time.monotonic() + _KILLED_SECONDS
        # Repeated, because the postmaster may start another process before SIGKILL ends it.
        while left := self.find():
            if time.monotonic() > deadline:
                numbers = ", ".join(map(str, left))
                raise PostgresFailedError(Cause.STUCK, f"processes do not end: {numbers}", self._data)
            for pid in left:
                _send(pid, signal.SIGKILL)
            await asyncio.sleep(_POLL_SECONDS)

    async def _wait_end(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.find():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True


def _program(process: Path) -> str:
    # Linux adds this suffix when the program's file was replaced, for example by an upgrade.
    return (process / "exe").readlink().name.removesuffix(" (deleted)")


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
