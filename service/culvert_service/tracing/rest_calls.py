"""A span for each request of the REST API, named by the route's pattern, because a path contains names."""

from __future__ import annotations

from opentelemetry.trace import SpanKind
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from culvert_service.tracing.span import fail, span

# Left out of the spans' names.
_PREFIX = "/api/v1"


class TracedRestCalls:
    """ASGI middleware. Live views have no span, because each is one request for as long as it is watched."""

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
