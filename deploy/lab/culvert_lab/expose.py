"""Lets a browser on this machine reach the console and the REST API: a relay from 127.0.0.1 while the lab is up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from culvert_lab.errors import PortTakenError
from culvert_lab.lab import lab_connection
from culvert_lab.netns import Inside
from culvert_lab.topology import CONTROLLER_ADDRESS, REST_PORT, Site

CHUNK = 65536


@asynccontextmanager
async def relay(inside: Inside, port: int) -> AsyncGenerator[None]:
    """127.0.0.1:`port` leads to the controller; `inside` is its site. Raises PortTakenError."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            connection = await inside.run(socket.create_connection, (CONTROLLER_ADDRESS, REST_PORT), 5.0)
            far_reader, far_writer = await asyncio.open_connection(sock=connection)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    try:
        server = await asyncio.start_server(carry, "127.0.0.1", port)
    except OSError as error:
        raise PortTakenError(port) from error
    async with server:
        yield


async def expose(port: int = REST_PORT) -> None:
    """Until the lab ends. Raises PortTakenError, LabDownError."""
    inside = Inside(Site.CONTROLLER.value)
    with lab_connection() as lab:
        async with relay(inside, port):
            print(
                f"https://127.0.0.1:{port}/console/ and /docs/ until Ctrl-C. The certificate is of the lab's own CA.",
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
