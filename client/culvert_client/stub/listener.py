"""The DNS port of this computer: takes queries over UDP and TCP, hands each to `resolve`, sends back what that says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from culvert_client.config import Endpoint
from culvert_client.core import dns_wire

# Our tunables.
MOST_AT_ONCE = 1000
TCP_IDLE = 10.0
"""Seconds."""

Resolve = Callable[[bytes], Awaitable[bytes | None]]


class Listener:
    """Drops what exceeds MOST_AT_ONCE: a flood costs memory no further."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None

    async def open(self, endpoint: Endpoint) -> None:
        """Raises OSError when the port is taken or not allowed."""
        loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._on_connection, endpoint.host, endpoint.port)
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self._on_datagram), local_addr=(endpoint.host, endpoint.port)
        )

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_datagram(self, query: bytes, sender: tuple[str, int]) -> None:
        if len(self._tasks) < MOST_AT_ONCE:
            self._spawn(self._answer_datagram(query, sender))

    async def _answer_datagram(self, query: bytes, sender: tuple[str, int]) -> None:
        reply = await self._resolve(query)
        if reply is not None and self._transport is not None:
            self._transport.sendto(dns_wire.fitted(reply, query), sender)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= MOST_AT_ONCE:
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                async with asyncio.timeout(TCP_IDLE):
                    query = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                reply = await self._resolve(query)
                if reply is None:
                    return
                writer.write(len(reply).to_bytes(2, "big") + reply)
                async with asyncio.timeout(TCP_IDLE):
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return
        finally:
            self._tasks.discard(task)
            writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, tuple[str, int]], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._received(data, addr)
