"""Lets a browser on this machine reach the controller's REST API: a relay from 127.0.0.1, as long as the lab is up."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from culvert_lab.errors import PortTakenError
from culvert_lab.lab import lab_connection
from culvert_lab.netns import Inside
from culvert_lab.topology import CONTROLLER_ADDRESS, REST_PORT, Site

CHUNK = 65536


async def expose(port: int = REST_PORT) -> None:
    """Relay 127.0.0.1:`port` to the controller until the lab ends. Raises PortTakenError, LabDownError."""
    inside = Inside(Site.CONTROLLER.value)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            connection = await inside.run(socket.create_connection, (CONTROLLER_ADDRESS, REST_PORT), 5.0)
            far_reader, far_writer = await asyncio.open_connection(sock=connection)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    with lab_connection() as lab:
        try:
            server = await asyncio.start_server(carry, "127.0.0.1", port)
        except OSError as error:
            raise PortTakenError(port) from error
        async with server:
            print(
                f"https://127.0.0.1:{port}/docs until Ctrl-C. The certificate is of the lab's own CA.",
                flush=True,
            )
            lab.setblocking(False)
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().sock_recv(lab, 1)
            print("The lab has ended.")
    inside.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()
