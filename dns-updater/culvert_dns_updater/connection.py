"""DNS messages over TCP (RFC 7766) to a name server at one of its addresses."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncGenerator

_LENGTH = struct.Struct("!H")


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float) -> None:
        """`patience`: seconds for each message, sent or received."""
        self._reader, self._writer, self._patience = reader, writer, patience

    async def send(self, message: bytes) -> None:
        """Raises OSError."""
        self._writer.write(_LENGTH.pack(len(message)) + message)
        async with asyncio.timeout(self._patience):
            await self._writer.drain()

    async def receive(self) -> bytes:
        """Raises OSError, EOFError."""
        async with asyncio.timeout(self._patience):
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return await self._reader.readexactly(length)


@contextlib.asynccontextmanager
async def connect(address: str, port: int, patience: float) -> AsyncGenerator[Connection]:
    """Raises OSError."""
    async with asyncio.timeout(patience):
        reader, writer = await asyncio.open_connection(address, port)
    try:
        yield Connection(reader, writer, patience)
    finally:
        writer.close()


async def addresses_of(server: str, port: int, patience: float) -> list[str]:
    """The server's addresses in the order of trying. Raises OSError."""
    async with asyncio.timeout(patience):
        found = await asyncio.get_running_loop().getaddrinfo(server, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(it[4][0]) for it in found))
