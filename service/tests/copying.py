"""A proxy's copy of one direction of a connection, which a test can break."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until either end is gone."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
