"""Starts and stops the tracing of one process."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from culvert_agent_server import Around, Context
from culvert_db import Database
from culvert_proto.grpc_errors import reason_of
from fastapi import FastAPI
from opentelemetry.trace import SpanKind
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from culvert_service.config import Settings
from culvert_service.tracing import statements
from culvert_service.tracing.span import fail, span, use

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

# Left out of the spans' names.
_PREFIX = "/api/v1"


class Tracing:
    """Does nothing unless the settings name a collector."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._engine = cast(AsyncEngine, database.kw["bind"]).sync_engine
        self._endpoint = settings.otlp_endpoint
        self._provider: TracerProvider | None = None

    def add_to(self, app: FastAPI) -> None:
        if self._endpoint is not None:
            app.add_middleware(_TracedRestCalls)

    def around_agent_calls(self) -> list[Around]:
        return [] if self._endpoint is None else [_trace_agent_call]

    async def start(self) -> None:
        if self._endpoint is None:
            return
        # Imported here, because it takes megabytes of memory that most controllers never need.
        from culvert_service.tracing.exporter import provider

        self._provider = provider(self._endpoint, self._settings.trace_ratio, self._settings.controller_name)
        statements.trace(self._engine)
        use(self._provider.get_tracer("culvert_service"))

    async def stop(self) -> None:
        if self._provider is None:
            return
        use(None)
        statements.leave(self._engine)
        # Shutting down sends the remaining spans.
        await asyncio.to_thread(self._provider.shutdown)


@contextmanager
def _trace_agent_call(method: str, context: Context) -> Generator[None]:
    """A span for each call of a device."""
    service, _, name = method.partition("/")
    named = {"rpc__system": "grpc", "rpc__service": service, "rpc__method": name}
    with span(method, SpanKind.SERVER, **named) as call:
        try:
            yield
        except BaseException:
            reason = reason_of(context.trailing_metadata())
            if call is not None and reason is not None:
                fail(call, reason.name)
            raise


class _TracedRestCalls:
    """ASGI middleware: a span for each request of the REST API, named by the route, because a path contains names.

    Live views have no span, because each is one request for as long as it is watched.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(f"{_PREFIX}/events"):
            await self._app(scope, receive, send)
            return
        with span("REST", SpanKind.SERVER) as request:

            async def answered(message: Message) -> None:
                if request is not None and message["type"] == "http.response.start":
                    method, status = str(scope["method"]), int(message["status"])
                    route = str(getattr(scope.get("route"), "path", "none")).removeprefix(_PREFIX)
                    request.update_name(f"{method} {route}")
                    request.set_attribute("http.request.method", method)
                    request.set_attribute("http.route", route)
                    request.set_attribute("http.response.status_code", status)
                    if status >= 500:
                        fail(request, str(status))
                await send(message)

            await self._app(scope, receive, answered)
