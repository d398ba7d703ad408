"""A proxy on the public socket: learns each caller's uid from the kernel, and tells the gRPC server behind it.

   program ──► culvertd.sock (0666) ──SO_PEERCRED: uid──► private/caller-7 ──► private/grpc.sock   (private/ is 0700)

gRPC gives a handler only the name of its peer's socket, and no credentials. So the proxy forwards each connection from a
socket with a unique name, and stores the uid by that name. Only root can reach the private sockets and forge a name.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Coroutine
from pathlib import Path

from culvert_client.core.places import Owners, Places
from culvert_client.platform.interfaces import LocalCallers

_CHUNK = 1 << 16
# Our tunables: connections of all users, of one user, and the reserved ones of each owner and of root.
MOST_CALLERS, MOST_OF_ONE, RESERVED = 256, 32, 16
FIRST_WORDS = 5.0
"""Seconds until a connection's first bytes must have arrived."""
LIMITS = (
    ("grpc.max_concurrent_streams", 16),
    ("grpc.max_receive_message_length", 1 << 16),
    ("grpc.max_metadata_size", 1 << 13),
    # Closes a connection without calls; programs connect again by themselves.
    ("grpc.max_connection_idle_ms", 60_000),
)


class AnotherDaemonError(OSError):
    """Another culvertd runs with this socket."""


class Front:
    """Call `claim`, start the gRPC server at `grpc_address`, call `open`; `close` undoes all."""

    def __init__(self, path: Path, callers: LocalCallers) -> None:
        self._path, self._callers = path, callers
        self._private = path.with_name(f"{path.name}.d")
        self._uids: dict[str, int] = {}
        self._places: Places | None = None
        self._names = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._lock: int | None = None

    @property
    def grpc_address(self) -> str:
        return f"unix:{self._private / 'grpc.sock'}"

    def uid_of(self, peer: str) -> int | None:
        """The caller's uid, for gRPC's peer name. None if the connection did not come through this proxy."""
        return self._uids.get(peer)

    def claim(self) -> None:
        """Lock the socket's directory, and remove files that a crash left. A second call does nothing.

        Raises AnotherDaemonError, and OSError if the directory cannot be used.
        """
        if self._lock is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._private.mkdir(mode=0o700, exist_ok=True)
        self._private.chmod(0o700)
        self._lock = self._callers.lock(self._private)
        if self._lock is None:
            raise AnotherDaemonError(f"{self._path} is in use: another culvertd is running")
        self._sweep()

    async def open(self, owners: Owners) -> None:
        """Listen on the public socket. Raises OSError if that is not permitted."""
        self._places = Places(MOST_CALLERS, MOST_OF_ONE, RESERVED, owners)
        self._server = await asyncio.start_unix_server(self._on_connection, self._path)
        self._path.chmod(0o666)

    async def close(self) -> None:
        if self._lock is None:
            return
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._sweep()
        with contextlib.suppress(OSError):
            self._private.rmdir()
        os.close(self._lock)

    def _sweep(self) -> None:
        for left in (self._path, *self._private.iterdir()):
            left.unlink(missing_ok=True)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        public: socket.socket = writer.get_extra_info("socket")
        uid = self._callers.uid_of(public)
        assert self._places is not None
        if not self._places.take(uid):
            writer.close()
            return
        self._tasks.add(task)
        try:
            async with asyncio.timeout(FIRST_WORDS):
                first = await reader.read(_CHUNK)
            if first:
                await self._carry(uid, first, reader, writer)
        except (OSError, TimeoutError):
            return
        except asyncio.CancelledError:
            # Only `close` cancels, and nothing waits for the result.
            return
        finally:
            self._places.give_back(uid)
            self._tasks.discard(task)
            writer.close()

    async def _carry(
        self, uid: int, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        name = self._private / f"caller-{next(self._names)}"
        behind = socket.socket(socket.AF_UNIX)
        behind.setblocking(False)
        peer = f"unix:{name}"
        self._uids[peer] = uid
        try:
            behind.bind(str(name))
            await asyncio.get_running_loop().sock_connect(behind, str(self._private / "grpc.sock"))
            back_reader, back_writer = await asyncio.open_unix_connection(sock=behind)
            name.unlink()
            try:
                back_writer.write(first)
                await _either(_copy(reader, back_writer), _copy(back_reader, writer))
            finally:
                back_writer.close()
        except OSError:
            behind.close()
        finally:
            del self._uids[peer]
            name.unlink(missing_ok=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()


async def _either(*directions: Coroutine[None, None, None]) -> None:
    """Run until one side disconnects: HTTP/2 has no half-open connections."""
    tasks = [asyncio.ensure_future(direction) for direction in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
