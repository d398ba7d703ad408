"""Find what stopped controllers leave running: tasks, threads, parts that did not stop in time."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from culvert_db import Database
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool

# Libraries end some tasks a few turns of the loop after they were cancelled.
_SETTLING_SECONDS = 5.0
# Until the event loop ends: the threads of its pool and AnyIO's, those that wait for child processes, and gRPC's thread.
_KEPT_THREADS = ("asyncio_", "asyncio-waitpid", "AnyIO", "_poll_wrapper")
# Code of tests, and of the switches and servers of Postgres that belong to tests.
_OF_TESTS = ("/tests/", "pytest_asyncio", "grpcio/", "culvert_db/embedded")
_OVERDUE = ("a part did not stop", "calls did not end", "requests did not end")


class _Overdue(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if (line := record.getMessage()).startswith(_OVERDUE):
            self.lines.append(line)


class _Before:
    """The tasks and threads from before the first of the controllers that run now."""

    def __init__(self) -> None:
        self.controllers = 0
        self.tasks: set[asyncio.Task[Any]] = set()
        self.threads: set[threading.Thread] = set()

    def left(self) -> list[str]:
        tasks = [repr(task) for task in asyncio.all_tasks() - self.tasks if not _is_of_a_test(task)]
        threads = [thread.name for thread in threading.enumerate() if thread not in self.threads]
        return tasks + [name for name in threads if not any(kept in name for kept in _KEPT_THREADS)]


_BEFORE = _Before()


@asynccontextmanager
async def nothing_left() -> AsyncGenerator[None]:
    """Asserts that a controller's parts end in time, and that nothing is left when no controller runs any more."""
    overdue, root = _Overdue(), logging.getLogger()
    if _BEFORE.controllers == 0:
        _BEFORE.tasks, _BEFORE.threads = asyncio.all_tasks(), set(threading.enumerate())
    _BEFORE.controllers += 1
    root.addHandler(overdue)
    try:
        yield
    finally:
        root.removeHandler(overdue)
        _BEFORE.controllers -= 1
    assert overdue.lines == []
    deadline = time.monotonic() + _SETTLING_SECONDS
    while _BEFORE.controllers == 0 and (left := _BEFORE.left()):
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.01)


def connections_in_use(database: Database) -> int:
    engine = cast(AsyncEngine, database.kw["bind"])
    return cast(QueuePool, engine.pool).checkedout()


def _is_of_a_test(task: asyncio.Task[Any]) -> bool:
    coroutine = task.get_coro()
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    return code is None or any(part in code.co_filename for part in _OF_TESTS)
