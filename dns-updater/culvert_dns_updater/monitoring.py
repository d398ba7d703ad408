"""HTTP endpoints for monitoring: /healthz, /readyz, /metrics. Without TLS; answers contain no secrets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from culvert_dns_updater.instruments import Instruments

# Connections at once; each has a thread.
_CONNECTIONS_MAX = 16

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment


class _Handler(WSGIRequestHandler):
    timeout = 5.0

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing for each request."""


class _Server(ThreadingMixIn, WSGIServer):
    """At the limit the oldest connection is closed, so that idle strangers do not keep a monitor out."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, None] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._connections) == _CONNECTIONS_MAX:
                oldest = next(iter(self._connections))
                del self._connections[oldest]
                # Its thread reads the end of the stream, and ends.
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._connections[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)


class _ServerOfIpv6(_Server):
    address_family = socket.AF_INET6


@contextlib.asynccontextmanager
async def serve(listen: str, instruments: Instruments, ready: Callable[[], bool]) -> AsyncGenerator[None]:
    """Serve at "host:port". Raises OSError."""

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        status, body = HTTPStatus.OK, {}
        match environ["REQUEST_METHOD"], environ["PATH_INFO"]:
            case "GET", "/metrics":
                start("200 OK", [("Content-Type", CONTENT_TYPE_LATEST)])
                return [generate_latest(instruments.registry)]
            case "GET", "/healthz":
                body = {"status": "ok"}
            case "GET", "/readyz":
                body = {"ready": ready()}
                status = HTTPStatus.OK if body["ready"] else HTTPStatus.SERVICE_UNAVAILABLE
            case "GET", _:
                status = HTTPStatus.NOT_FOUND
            case _:
                status = HTTPStatus.METHOD_NOT_ALLOWED
        start(f"{status.value} {status.phrase}", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    host, _, port = listen.rpartition(":")
    kind = _ServerOfIpv6 if ":" in host else _Server
    with make_server(host.strip("[]"), int(port), answer, kind, _Handler) as server:
        serve = asyncio.create_task(asyncio.to_thread(server.serve_forever))
        try:
            yield
        finally:
            await asyncio.to_thread(server.shutdown)
            await serve
