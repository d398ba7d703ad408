"""Lets a browser on this machine reach the controller's REST API: a relay from 127.0.0.1, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from culvert_lab.netns import Inside
from culvert_lab.topology import CONTROLLER_ADDRESS, REST_PORT, Site

CHUNK = 65536


async def expose(port: int = REST_PORT) -> None:
    """Relay 127.0.0.1:`port` to the controller. Raises OSError when the port is taken."""
    inside = Inside(Site.CONTROLLER.value)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            connection = await inside.run(socket.create_connection, (CONTROLLER_ADDRESS, REST_PORT), 5.0)
            far_reader, far_writer = await asyncio.open_connection(sock=connection)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    async with await asyncio.start_server(carry, "127.0.0.1", port) as server:
        await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()
