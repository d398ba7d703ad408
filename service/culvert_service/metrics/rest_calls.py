"""Counts what the REST API is asked, by the route's pattern: a path holds names."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from culvert_service.metrics.instruments import Instruments
from culvert_service.rest.api import PREFIX

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RestCalls:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, instruments: Instruments) -> None:
        self._app = app
        self._instruments = instruments

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in _METHODS else "other"
                route = str(getattr(scope.get("route"), "path", "none")).removeprefix(PREFIX)
                self._instruments.rest_calls.labels(method, route, str(message["status"])).inc()
                self._instruments.rest_seconds.labels(method, route).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, counted)
