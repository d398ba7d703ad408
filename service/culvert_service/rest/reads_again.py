"""A read whose database broke off is made again before the caller hears of it. A write is the caller's to repeat."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# In a request's scope: the application answered that its database is down.
DATABASE_DOWN = "culvert.database_down"
_READS = ("GET", "HEAD")
_PAUSE_SECONDS = 0.1


class ReadsAgain:
    """ASGI middleware. An answer that has begun, as a stream's, is not made again."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _READS:
            await self._app(scope, receive, send)
            return
        # The first call keeps the scope itself, in which metrics and traces find the route.
        untouched = dict(scope)
        withheld = False

        async def send_unless_down(message: Message) -> None:
            nonlocal withheld
            if message["type"] == "http.response.start":
                withheld = scope.get(DATABASE_DOWN, False)
            if not withheld:
                await send(message)

        await self._app(scope, receive, send_unless_down)
        if withheld:
            await asyncio.sleep(_PAUSE_SECONDS)
            await self._app(untouched, _without_body(receive), send)


def _without_body(receive: Receive) -> Receive:
    """A server gives the end of a body once, and then nothing until the caller has gone."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return again
