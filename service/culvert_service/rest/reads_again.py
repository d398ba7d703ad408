"""Repeats a read that failed because the database connection broke. The caller itself repeats a write."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A key in a request's scope: the application answered DATABASE_DOWN.
DATABASE_DOWN = "culvert.database_down"
_READS = ("GET", "HEAD")
_PAUSE_SECONDS = 0.1


class ReadsAgain:
    """ASGI middleware. An answer that has begun, such as a stream, is not repeated."""

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
    """A `receive` for the repetition: the server has already given the end of the body, and gives it only once."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return again
