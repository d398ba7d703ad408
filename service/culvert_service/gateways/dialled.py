"""Gateways that connect to this controller: which may, which are connected, and where a link takes the connection.

 gateway ── TLS ──► agent port (Rust) ── begun, ended ──► Dialled ──► ownership: claims and releases leases
                        └────────────── bytes ── Unix socket ──► link: P4Runtime client

TLS ends in the agent port, which has verified the gateway. The bytes go to the link of the same process, over a socket in a
directory of mode 0700 that accepts this process alone (docs/decisions, 62).
"""

from __future__ import annotations

import asyncio
import datetime
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from culvert_service.gateways.health import not_connected

LOST_SECONDS = 5.0
"""A controller releases the lease of a gateway whose connection has been lost for this time."""

_PREFIX = "gateways-"


class GatewayPort(Protocol):
    """The port to which gateways connect."""

    def register(self, gateways: Mapping[str, int]) -> None:
        """Let these gateways connect, each with the Unix time of its registration, and end all others' connections."""
        ...

    def close(self) -> None:
        """End the connections of gateways."""
        ...


class Dialled:
    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._directory: Path | None = None
        self._lock: int | None = None
        self._port: GatewayPort | None = None
        self._registered: dict[str, int] = {}
        # The newest connection of each gateway, and those among them that no link has taken.
        self._connected: dict[str, Path] = {}
        self._free: dict[str, Path] = {}
        # When a registered gateway was first seen without a connection: the monotonic time, and the time of day.
        self._lost: dict[str, tuple[float, datetime.datetime]] = {}
        self._news = asyncio.Event()
        self._hear: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Raises OSError."""
        self._remove_leftovers()
        directory = self._state_dir / f"{_PREFIX}{secrets.token_hex(4)}"
        directory.mkdir(mode=0o700)
        self._lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._directory = directory

    async def stop(self) -> None:
        """End the connections, after the links."""
        if self._port is not None:
            self._port.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
        self._port = self._directory = self._lock = None

    @property
    def directory(self) -> Path:
        """For the sockets; of this process alone. The address of a socket has 107 bytes: state_dir may have more."""
        if self._lock is None:
            raise RuntimeError("not started")
        return Path(f"/proc/self/fd/{self._lock}")

    def serve(self, port: GatewayPort) -> None:
        self._port = port
        port.register(self._registered)

    def tell(self, hear: Callable[[], None]) -> None:
        """`hear` is called after each connection's begin and end, and when a lost one has been lost for LOST_SECONDS."""
        self._hear = hear

    def register(self, gateways: Mapping[str, int]) -> None:
        """Let these gateways connect, by name, each with the Unix time of its registration, and no others."""
        if gateways == self._registered:
            return
        self._registered = dict(gateways)
        for name in gateways.keys() - self._connected.keys() - self._lost.keys():
            self._set_lost(name)
        self._lost = {name: lost for name, lost in self._lost.items() if name in gateways}
        if self._port is not None:
            self._port.register(self._registered)

    def take_change(self, name: str, path: Path, connected: bool) -> None:
        """For the port: a connection has begun, whose socket is at `path`, or has ended."""
        if connected:
            self._connected[name] = self._free[name] = path
            self._lost.pop(name, None)
        else:
            if self._free.get(name) == path:
                del self._free[name]
            # A newer connection may have replaced this one.
            if self._connected.get(name) == path:
                del self._connected[name]
                if name in self._registered:
                    self._set_lost(name)
        self._news.set()
        self._news = asyncio.Event()
        self._hear()

    def connected(self) -> Collection[str]:
        return self._connected.keys() & self._registered.keys()

    def lost(self) -> Collection[str]:
        """The registered gateways that have had no connection for LOST_SECONDS."""
        since = time.monotonic() - LOST_SECONDS
        return [name for name, (at, _) in self._lost.items() if at <= since]

    def is_expected(self, name: str) -> bool:
        """Whether a gateway without a connection may soon have one: this controller has started or lost it just now."""
        lost = self._lost.get(name)
        return lost is not None and time.monotonic() - lost[0] < LOST_SECONDS

    def why(self, name: str) -> str | None:
        """The reason for which the gateway cannot be reached; None while it is connected."""
        lost = self._lost.get(name)
        return None if lost is None else not_connected(name, lost[1])

    async def take(self, name: str) -> str:
        """Wait for a connection that no link has taken. Returns its address, which is good for one channel."""
        while (path := self._free.pop(name, None)) is None:
            await self._news.wait()
        return f"unix:{path}"

    def release(self, name: str, address: str) -> None:
        """End the connection that a link has taken, so that the gateway connects again for the next link.

        gRPC may keep it open after its channel's end, while anything refers to a stream of it (grpc/grpc#42125).
        """
        if self._port is not None and address == f"unix:{self._connected.get(name)}":
            self._port.register({it: at for it, at in self._registered.items() if it != name})
            self._port.register(self._registered)

    def _set_lost(self, name: str) -> None:
        self._lost[name] = time.monotonic(), datetime.datetime.now(datetime.UTC)
        asyncio.get_running_loop().call_later(LOST_SECONDS, lambda: self._hear())

    def _remove_leftovers(self) -> None:
        """Remove the directories of processes that were killed: nobody holds their locks."""
        for directory in self._state_dir.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory)
                finally:
                    os.close(lock)
