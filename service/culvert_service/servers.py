"""The two ports: certificates, limits, and the server behind each front. New connections get a new certificate at once.

devices ── gRPC, mTLS ──► AgentPort                 admins, invitations ── HTTPS ──► RestPort ──► uvicorn
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import resource
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import uvicorn
from culvert_agent_server import (
    BODY_MAX,
    HEAD_MAX,
    REQUEST_MAX,
    Around,
    CallLimits,
    Ends,
    Problems,
    RestServer,
    Server,
    Shown,
)
from culvert_proto import CulvertError, Reason, agent_pb2_grpc
from culvert_proto.grpc_errors import status
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from culvert_service.agent.servicer import AgentServicer
from culvert_service.config import ConfigurationError, Settings, split_listen
from culvert_service.gateways.dialled import Dialled
from culvert_service.identity.revocations import Revocations
from culvert_service.pki.own_certificates import OwnCertificates
from culvert_service.pki.public_certificate import PublicCertificates
from culvert_service.rest.problem import problem
from culvert_service.watch.hub import Hub

if TYPE_CHECKING:
    import grpc.aio

_log = logging.getLogger(__name__)

GRACE_SECONDS = 2.0
# A connection is closed when its handshake, or a request's head or body, takes longer.
HANDSHAKE_SECONDS = 5.0
REQUEST_SECONDS = 30.0
# Each device is a connection, and systemd's soft limit is 1,024.
_MOST_FILES = 1 << 20
# The front's limit is coarse: a page of the console loads dozens of files. `admins.rates` limits calls of the application.
_FRONT_CALLS_PER_SECOND = 100.0
# This header tells the front that the request's credentials are valid. The front removes it from the answer.
_ADMITTED = (b"culvert-admitted", b"1")


def raise_file_limit() -> None:
    """Raise this process' limit of open files, as far as the process may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class AgentPort:
    """The port of devices, and of gateways that connect themselves.

    It refuses revoked certificates from its first handshake on.
    """

    def __init__(
        self,
        settings: Settings,
        own: OwnCertificates,
        servicer: AgentServicer,
        dialled: Dialled,
        revocations: Revocations,
        hub: Hub,
        around: Sequence[Around],
    ) -> None:
        self._settings = settings
        self._own = own
        self._servicer = servicer
        self._dialled = dialled
        self._revocations = revocations
        self._hub = hub
        self._around = around
        self._server: Server | None = None

    async def start(self) -> None:
        """Raises ConfigurationError, and what the database does."""
        server = self._server = self._listen()
        self._dialled.serve(server)
        agent_pb2_grpc.add_AgentServiceServicer_to_server(self._servicer, cast("grpc.aio.Server", server))
        await self._revocations.start(server)
        server.start(self._servicer.audit_limited, self._dialled.take_change)

    async def stop(self) -> None:
        """Connections of gateways last until `Dialled` stops, after their links."""
        await self._revocations.stop()
        self._hub.end_all()
        if self._server is not None:
            await self._server.end_calls(GRACE_SECONDS)

    def _listen(self) -> Server:
        own = self._own

        def shown() -> Shown:
            return Shown(own.chain(own.server), own.server.key_pem, own.devices_pem)

        def to_gateways() -> Shown:
            return Shown(own.chain(own.client), own.client.key_pem, own.dialling_pem)

        listen, rate = self._settings.agent_listen, self._settings.agent_calls_per_second
        host, port = split_listen(listen)
        limits = CallLimits(
            _file_limit(),
            rate,
            too_large=_ends(CulvertError(Reason.BODY_TOO_LARGE, limit=REQUEST_MAX)),
            too_often=_ends(CulvertError(Reason.RATE_LIMITED, seconds=max(1, math.ceil(1 / rate)))),
        )
        try:
            server = Server(
                host,
                port,
                shown(),
                limits,
                handshake_seconds=HANDSHAKE_SECONDS,
                around=self._around,
                to_gateways=to_gateways(),
                sockets=self._dialled.directory,
                balancers=self._settings.proxy_protocol,
            )
        except OSError as error:
            raise ConfigurationError(f"agent_listen: cannot listen on {listen}: {error}") from None
        own.tell(lambda: server.show(shown(), to_gateways()))
        return server


class RestPort:
    """The administrators' port: a front in Rust, which hands each request to uvicorn."""

    def __init__(
        self, app: FastAPI, settings: Settings, own: OwnCertificates, public: PublicCertificates | None
    ) -> None:
        self._settings = settings
        self._own = own
        self._public = public
        self._requests = _Requests(app)
        self._front: RestServer | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises ConfigurationError."""
        front = self._front = self._listen()
        self._serving = asyncio.create_task(self._requests.serve(sockets=[]), name="REST")
        front.start(self._requests.take)

    async def stop(self) -> None:
        if self._front is None or self._serving is None:
            return
        self._front.end()
        self._requests.should_exit = True
        # uvicorn has its own grace period; a request that resists it must not keep the controller from stopping.
        if not (await asyncio.wait({self._serving}, timeout=3 * GRACE_SECONDS))[0]:
            _log.error("requests did not end")
        await self._front.stop(GRACE_SECONDS)

    def _listen(self) -> RestServer:
        own, settings = self._own, self._settings
        host, port = split_listen(settings.rest_listen)
        try:
            front = RestServer(
                host,
                port,
                own.chain(own.server),
                own.server.key_pem,
                problems=Problems(
                    malformed=_problem(CulvertError(Reason.REQUEST_MALFORMED, limit=HEAD_MAX)),
                    too_large=_problem(CulvertError(Reason.BODY_TOO_LARGE, limit=BODY_MAX)),
                    too_often=_problem(CulvertError(Reason.RATE_LIMITED, seconds=1)),
                    fault=_problem(CulvertError(Reason.INTERNAL)),
                ),
                files=_file_limit(),
                handshake_seconds=HANDSHAKE_SECONDS,
                request_seconds=REQUEST_SECONDS,
                strangers_calls_per_second=max(
                    _FRONT_CALLS_PER_SECOND, 5 * settings.rest_strangers_calls_per_second
                ),
                trusted_proxies=settings.trusted_proxies,
                balancers=settings.proxy_protocol,
            )
        except OSError as error:
            message = f"rest_listen: cannot listen on {settings.rest_listen}: {error}"
            raise ConfigurationError(message) from None

        def show() -> None:
            found = self._public.current if self._public is not None else None
            challenge = self._public.challenge if self._public is not None else None
            front.show(
                own.chain(own.server),
                own.server.key_pem,
                None if found is None else (found.chain, found.key),
                # Both are in one text: the certificate, then the key.
                None if challenge is None else (challenge, challenge),
            )

        show()
        own.tell(show)
        if self._public is not None:
            self._public.tell(show)
        return front


def _file_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _ends(error: CulvertError) -> Ends:
    ends = status(error)
    return ends.code, ends.message, ends.SerializeToString()


def _problem(error: CulvertError) -> bytes:
    return bytes(problem(error).body)


class _Requests(uvicorn.Server):
    """Serves sockets that the front hands over, and listens on none. The process handles signals, not uvicorn."""

    def __init__(self, app: FastAPI) -> None:
        config = uvicorn.Config(
            _MarkAdmitted(app),
            http=_Request,
            log_config=None,
            access_log=False,
            server_header=False,
            # The front gives the caller's address to `take`; uvicorn must not read it from headers.
            proxy_headers=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=int(GRACE_SECONDS),
        )
        config.load()
        super().__init__(config)
        self._connecting: set[asyncio.Task[object]] = set()

    def take(self, connection: socket.socket, source: str) -> None:
        loop = asyncio.get_running_loop()

        def request() -> _Request:
            return _Request(self.config, self.server_state, {}, loop, source=source)

        task: asyncio.Task[object] = loop.create_task(loop.connect_accepted_socket(request, connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    @contextlib.contextmanager
    def capture_signals(self):
        yield


class _Request(H11Protocol):
    """Serves one request. `source` is the caller's address, from the front."""

    def __init__(self, *arguments: object, source: str = "") -> None:
        super().__init__(*arguments)  # pyright: ignore[reportArgumentType]
        self._source = source

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.client = (self._source, 0)
        self.scheme = "https"


class _MarkAdmitted:
    """ASGI middleware: marks the answers to authenticated callers with a header for the front."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start" and scope.get("state", {}).get("admitted"):
                message["headers"] = [*message.get("headers", ()), _ADMITTED]
            await send(message)

        await self._app(scope, receive, send_marked)
