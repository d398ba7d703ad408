"""Network namespaces, named under /run/netns as ip-netns(8) names them, and work inside of them.

setns and unshare move one thread, not the program: so nothing here forks, and the signal handlers of an event loop
are never shared with a child.
"""

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
MS_BIND, MS_REC, MS_SHARED = 0x1000, 0x4000, 0x100000
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def create(name: str) -> None:
    """Make a namespace with a name. Raises OSError."""
    NETNS_DIR.mkdir(exist_ok=True)
    _share()
    path = NETNS_DIR / name
    path.touch(0o444, exist_ok=False)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_create, path).result()


def _share() -> None:
    """As the first `ip netns add` on a computer does: done after our own names are there, it would hide them for good."""
    where = bytes(NETNS_DIR)
    if _libc.mount(b"none", where, None, MS_REC | MS_SHARED, None) != 0:
        _check(_libc.mount(where, where, None, MS_BIND | MS_REC, None), str(NETNS_DIR))
        _check(_libc.mount(b"none", where, None, MS_REC | MS_SHARED, None), str(NETNS_DIR))


def _create(path: Path) -> None:
    leave()
    _check(_libc.mount(b"/proc/thread-self/ns/net", bytes(path), b"none", MS_BIND, None), str(path))


def delete(name: str) -> None:
    """Remove a namespace and its name; what is not there is no error. Raises OSError."""
    path = NETNS_DIR / name
    while _libc.umount2(bytes(path), MNT_DETACH) == 0:
        continue
    path.unlink(missing_ok=True)


def enter(path: Path) -> None:
    """Move the calling thread into the network namespace at `path`. Raises OSError."""
    with path.open("rb") as namespace:
        _check(_libc.setns(namespace.fileno(), CLONE_NEWNET), str(path))


def leave() -> None:
    """Move the calling thread into a new network, which ends with its last process. Raises OSError."""
    _check(_libc.unshare(CLONE_NEWNET), "unshare")


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)


class Inside:
    """A worker thread that lives in a namespace: sockets that it opens are the namespace's."""

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
