"""HTTP for who watches the updater: /healthz, /readyz, /metrics. Plain, and without a secret in any answer.

One request a connection: what is asked is a line of HTTP/1.1 (RFC 9112, section 3), and nothing after it is read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from culvert_dns_updater.instruments import Instruments

_SECONDS = 5.0
_JSON = "application/json"


@contextlib.asynccontextmanager
async def serving(listen: str, instruments: Instruments, ready: Callable[[], bool]) -> AsyncGenerator[None]:
    """At "host:port". Raises OSError."""

    def answer(path: str) -> tuple[HTTPStatus, str, bytes]:
        match path:
            case "/healthz":
                return HTTPStatus.OK, _JSON, b'{"status":"ok"}'
            case "/readyz" if ready():
                return HTTPStatus.OK, _JSON, b'{"ready":true}'
            case "/readyz":
                return HTTPStatus.SERVICE_UNAVAILABLE, _JSON, b'{"ready":false}'
            case "/metrics":
                return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(instruments.registry)
            case _:
                return HTTPStatus.NOT_FOUND, _JSON, b"{}"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError):
            async with asyncio.timeout(_SECONDS):
                method, target, *_ = (await reader.readline()).decode("ascii").split(" ")
                found = (HTTPStatus.METHOD_NOT_ALLOWED, _JSON, b"{}")
                status, kind, body = answer(target.partition("?")[0]) if method == "GET" else found
                head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
                head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
                writer.write_eof()
                # What the client has said beside is taken, lest the answer be lost with a reset.
                while await reader.read(4096):
                    pass
        writer.transport.abort()

    host, _, port = listen.rpartition(":")
    server = await asyncio.start_server(serve, host.strip("[]"), int(port))
    try:
        yield
    finally:
        server.close()
