"""Counts the calls of devices and of the REST API, and measures their time. Who watches is a gauge (state.py)."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from culvert_agent_server import Around, Context
from culvert_proto.grpc_errors import reason_of
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from culvert_service.metrics.instruments import Instruments
from culvert_service.rest.api import PREFIX

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def count_agent_calls(instruments: Instruments) -> Around:
    @contextmanager
    def count(method: str, context: Context) -> Generator[None]:
        name = method.rpartition("/")[2]
        began, outcome = time.perf_counter(), "OK"
        try:
            yield
        except BaseException:
            reason = reason_of(context.trailing_metadata())
            outcome = reason.name if reason else "FAULT"
            raise
        finally:
            instruments.agent_calls.labels(name, outcome).inc()
            instruments.agent_seconds.labels(name).observe(time.perf_counter() - began)

    return count


class RestCalls:
    """ASGI middleware. A call is counted under its route's pattern, because a path holds names."""

    def __init__(self, app: ASGIApp, *, instruments: Instruments) -> None:
        self._app = app
        self._instruments = instruments

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in _METHODS else "other"
                route = str(getattr(scope.get("route"), "path", "none")).removeprefix(PREFIX)
                self._instruments.rest_calls.labels(method, route, str(message["status"])).inc()
                self._instruments.rest_seconds.labels(method, route).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, count)
