"""The two servers' sockets and TLS; a certificate that is replaced is shown from the next connection on.

devices ── gRPC, mTLS ──► agent_server        admins, invitations ── HTTPS ──► rest_server
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import secrets
import socket
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import h11
import uvicorn
from culvert_agent_server import Around, Server, Shown
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from culvert_service import private_files
from culvert_service.config import ConfigurationError, split_listen
from culvert_service.pki.own_certificates import OwnCertificates

GRACE_SECONDS = 2.0
# Whoever has not shown a certificate, or not sent the request, by then is cut off: a stranger's connections are few.
HANDSHAKE_SECONDS = 10.0
REQUEST_SECONDS = 30.0
# Each device is a connection, and systemd's soft limit is 1,024.
_MOST_FILES = 1 << 20


def raise_file_limit() -> None:
    """Of this process, as far as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def agent_server(listen: str, own: OwnCertificates, around: Sequence[Around]) -> Server:
    """Raises ConfigurationError."""

    def shown() -> Shown:
        return Shown(own.chain(own.server), own.server.key_pem, own.devices_pem)

    host, port = split_listen(listen)
    try:
        server = Server(host, port, shown(), handshake_seconds=HANDSHAKE_SECONDS, around=around)
    except OSError as error:
        raise ConfigurationError(f"agent_listen: cannot listen on {listen}: {error}") from None
    own.tell(lambda: server.show(shown()))
    return server


@asynccontextmanager
async def rest_server(
    app: FastAPI, listen: str, state_dir: Path, own: OwnCertificates
) -> AsyncGenerator[None]:
    """Raises ConfigurationError."""
    config = uvicorn.Config(
        app,
        http=_PromptHttp,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=int(GRACE_SECONDS),
    )
    config.load()
    config.ssl = context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _show(context, state_dir, own)
    own.tell(lambda: _show(context, state_dir, own))
    server = _RestServer(config)
    try:
        listener = listening(listen)
    except OSError as error:
        raise ConfigurationError(f"rest_listen: cannot listen on {listen}: {error.strerror}") from None
    serving = asyncio.create_task(server.serve([listener]), name="REST")
    try:
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # uvicorn has no event for it
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)


def listening(listen: str) -> socket.socket:
    """A listener at HOST:PORT; an IPv6 one of all addresses takes IPv4 as well. Raises OSError."""
    host, port = split_listen(listen)
    if ":" in host:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6, dualstack_ipv6=socket.has_dualstack_ipv6()
        )
    else:
        listener = socket.create_server((host, port))
    # asyncio does it for sockets that know their protocol alone; without it an answer's body waits 40 ms for the
    # acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _show(context: ssl.SSLContext, state_dir: Path, own: OwnCertificates) -> None:
    # Python's ssl takes keys from files alone. Other controllers share the directory.
    file = state_dir / f".rest.{secrets.token_hex(8)}.pem"
    try:
        private_files.write(file, own.server.key_pem + own.chain(own.server))
        context.load_cert_chain(file)
    finally:
        file.unlink(missing_ok=True)


class _PromptHttp(H11Protocol):
    """Waits REQUEST_SECONDS for what the client owes of a request, from its first byte or the connection on."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._mind()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._mind()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _mind(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._forget()
        elif self._late is None:
            self._late = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _RestServer(uvicorn.Server):
    """Signals are the process's to handle, not one of its servers'."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield
