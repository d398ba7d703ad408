"""The DNS port of this computer: takes queries over UDP and TCP, hands each to `resolve`, sends back what that says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from culvert_client.config import Endpoint
from culvert_client.core import dns_wire

# Our tunables.
MOST_AT_ONCE = 1000
LONGEST_QUERY = 4096
"""Bytes; a longer one is cut, and malformed then."""
TCP_IDLE = 10.0
"""Seconds."""

Resolve = Callable[[bytes, Callable[[bytes | None], None]], None]
"""Calls back once, at once or later, with the answer; with None for what deserves none."""


class Listener:
    """Drops what exceeds MOST_AT_ONCE: a flood costs memory no further."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._waiting = 0
        self._connections: set[asyncio.Task[None]] = set()
        self._datagrams: socket.socket | None = None
        self._server: asyncio.Server | None = None

    async def open(self, endpoint: Endpoint) -> None:
        """Raises OSError when the port is taken or not allowed."""
        self._server = await asyncio.start_server(self._on_connection, endpoint.host, endpoint.port)
        family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        self._datagrams = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._datagrams.bind((endpoint.host, endpoint.port))
        asyncio.get_running_loop().add_reader(self._datagrams, self._on_readable, self._datagrams)

    async def close(self) -> None:
        if self._datagrams is not None:
            asyncio.get_running_loop().remove_reader(self._datagrams)
            self._datagrams.close()
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _on_readable(self, datagrams: socket.socket) -> None:
        try:
            query, sender = datagrams.recvfrom(LONGEST_QUERY)
        except OSError:
            # Nothing to read, or that an earlier answer found nobody.
            return
        if self._is_full():
            return
        self._waiting += 1

        def answer(reply: bytes | None) -> None:
            self._waiting -= 1
            # Whoever asked may have gone, and asks again if not.
            if reply is not None:
                with suppress(OSError):
                    datagrams.sendto(dns_wire.fitted(reply, query), sender)

        self._resolve(query, answer)

    def _is_full(self) -> bool:
        return self._waiting + len(self._connections) >= MOST_AT_ONCE

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_full():
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while True:
                async with asyncio.timeout(TCP_IDLE):
                    query = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
                self._resolve(query, partial(_set, answered))
                reply = await answered
                if reply is None:
                    return
                writer.write(len(reply).to_bytes(2, "big") + reply)
                async with asyncio.timeout(TCP_IDLE):
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return
        finally:
            self._connections.discard(task)
            writer.close()


def _set(answered: asyncio.Future[bytes | None], reply: bytes | None) -> None:
    # Whoever asked may have gone.
    if not answered.done():
        answered.set_result(reply)
