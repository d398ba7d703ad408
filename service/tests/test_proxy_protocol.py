"""Behind a load balancer that speaks the PROXY protocol, both ports count and log the client's address."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from culvert_lab.free_port import free_port
from culvert_service.config import split_listen

from .conftest import World, running, settings_in

CLIENT = "203.0.113.9"
LINE = f"PROXY TCP4 {CLIENT} 198.51.100.1 56324 443\r\n".encode()
# Version 2 with an extension behind the addresses.
BINARY = (
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f"
    + ipaddress.ip_address(CLIENT).packed
    + bytes((198, 51, 100, 1, 1, 2, 3, 4, 0x20, 0, 0))
)


@asynccontextmanager
async def balancer(port: int, target: str, header: bytes) -> AsyncGenerator[None]:
    """Passes each connection on, with the header before it."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection(*split_listen(target))
        here.write(header)
        await asyncio.gather(pump(reader, here), pump(there, writer))
        writer.close()
        here.close()

    async with await asyncio.start_server(serve, "127.0.0.1", port):
        yield


@pytest.mark.parametrize("header", [LINE, BINARY])
async def test_requests_and_calls_come_from_the_client(
    tmp_path: Path, database_url: str, header: bytes
) -> None:
    rest, agent = free_port(), free_port()
    settings = settings_in(
        tmp_path,
        database_url=database_url,
        proxy_protocol=["127.0.0.1/32"],
        public_rest_url=f"https://127.0.0.1:{rest}",
        public_agent_address=f"127.0.0.1:{agent}",
    )
    async with (
        running(settings) as world,
        balancer(rest, settings.rest_listen, header),
        balancer(agent, settings.agent_listen, header),
    ):
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        assert await source(world, "user.create") == CLIENT
        device = await world.enrol()
        await device.prove()
        assert await source(world, "device.prove") == CLIENT
        # A connection without the header is no connection of the balancer's.
        tls = ssl.create_default_context(cafile=str(settings.state_dir / "infrastructure-ca.pem"))
        host, port = split_listen(settings.rest_listen)
        with pytest.raises((ssl.SSLError, OSError)):
            await asyncio.open_connection(host, port, ssl=tls)


async def test_a_strangers_header_ends_its_connection(world: World) -> None:
    host, port = split_listen(world.settings.rest_listen)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(LINE)
    # TLS begins otherwise.
    with suppress(ConnectionError):
        assert b"HTTP" not in await reader.read(100)
        assert await reader.read(100) == b""
    writer.close()


async def source(world: World, action: str) -> str:
    return (await world.rest("GET", f"/audit?action={action}&limit=1"))[0]["source"]
