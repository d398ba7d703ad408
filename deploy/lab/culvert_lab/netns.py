"""Work inside a network namespace without leaving this process: setns moves one thread, not the program."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

NETNS_DIR = Path("/run/netns")
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def enter(path: Path) -> None:
    """Move the calling thread into the network namespace at `path`. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(fd, CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(fd)


class Inside:
    """One worker thread that lives in a namespace: sockets that it opens are the namespace's."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, f"in-{name}", initializer=enter, initargs=(NETNS_DIR / name,))

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function` there and wait for it."""
        return self._pool.submit(function, *args, **kwargs).result()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function` there without blocking the event loop."""
        return await asyncio.wrap_future(self._pool.submit(function, *args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def processes_in(name: str) -> list[int]:
    """Process ids whose main thread is in the namespace, this process excepted."""
    try:
        wanted = (NETNS_DIR / name).stat()
    except FileNotFoundError:
        return []
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            status = (entry / "ns/net").stat()
        except OSError:
            continue  # it has ended, or is a kernel thread
        if (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.append(int(entry.name))
    return found
