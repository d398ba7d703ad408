"""A name server on loopback that answers as a test chooses: silent, truncated, forged. The rest is tried on BIND."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import cast

import dns.flags
import dns.message
import dns.rrset
from culvert_client.config import Endpoint
from culvert_lab.free_port import free_port

Records = dict[tuple[str, str], list[str]]
# The datagrams with which a query is answered, in order.
Answer = Callable[[bytes], list[bytes]]


def from_records(records: Records) -> Answer:
    return lambda query: [respond(query, records)]


def respond(query: bytes, records: Records) -> bytes:
    asked = dns.message.from_wire(query)
    message = dns.message.make_response(asked)
    name, kind = asked.question[0].name, asked.question[0].rdtype.name
    for text in records.get((name.to_text().rstrip(".").lower(), kind), []):
        message.answer.append(dns.rrset.from_text(name, 60, "IN", kind, text))
    return message.to_wire()


def truncated(query: bytes) -> bytes:
    message = dns.message.make_response(dns.message.from_wire(query))
    message.flags |= dns.flags.TC
    return message.to_wire()


class _Server(asyncio.DatagramProtocol):
    def __init__(self, answer: Answer, asked: list[bytes]) -> None:
        self._answer, self._asked = answer, asked
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        self._asked.append(data)
        for reply in self._answer(data):
            self._transport.sendto(reply, addr)


@contextlib.asynccontextmanager
async def name_server(
    answer: Answer, over_tcp: Callable[[bytes], bytes] | None = None, port: int = 0, host: str = "127.0.0.1"
) -> AsyncGenerator[tuple[Endpoint, list[bytes]]]:
    """The server's endpoint, and the queries that it got over UDP."""

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        query = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        assert over_tcp is not None
        reply = over_tcp(query)
        writer.write(len(reply).to_bytes(2, "big") + reply)
        writer.close()

    asked: list[bytes] = []
    port = port or free_port()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: _Server(answer, asked), local_addr=(host, port)
    )
    server = await asyncio.start_server(on_connection, host, port) if over_tcp is not None else None
    try:
        yield Endpoint(host, port), asked
    finally:
        transport.close()
        if server is not None:
            server.close()
