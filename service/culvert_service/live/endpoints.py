"""REST: live views, as server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from typing import Annotated, TypeVar

from culvert_db import Sessions
from fastapi import APIRouter, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from culvert_service.audit.schemas import AuditLineOut
from culvert_service.dns.service import Dns
from culvert_service.gateways.service import Gateways
from culvert_service.live import sources
from culvert_service.live.log_view import LogView
from culvert_service.live.view import View
from culvert_service.rest.access import Access

# After this long, who watches has to be one who still may.
_ADMITTED_SECONDS = 10.0

LastEventId = Annotated[str | None, Header(max_length=512, description="Of the last event that was seen")]
_Event = TypeVar("_Event")


class Live:
    def __init__(self, sessions: Sessions, gateways: Gateways, dns: Dns) -> None:
        self.views = {
            "tunnels": sources.tunnels(sessions),
            "gateways": sources.gateways(gateways),
            "dns": sources.dns(sessions, dns),
        }
        self.log = LogView(sessions)

    async def stop(self) -> None:
        """Ends the streams, so that the server need not wait for them."""
        for one in (*self.views.values(), self.log):
            await one.stop()


def router(live: Live, access: Access) -> APIRouter:
    routes = APIRouter(prefix="/events", tags=["live views"])

    def serve(area: str, view: View) -> None:
        @routes.get(f"/{area}", response_class=EventSourceResponse, summary=f"Watch the {area}")
        async def watch(
            request: Request, last_event_id: LastEventId = None
        ) -> AsyncIterable[ServerSentEvent]:
            """`snapshot` has all `rows` by key, `changed` one `row` and its `key`, `gone` a `key`.

            With Last-Event-ID it goes on from there where it can, and begins with a snapshot where it cannot.
            """
            async for event in _while_admitted(view.events(last_event_id), access, request):
                yield ServerSentEvent(data=event.data, event=event.kind, id=event.id)

        _ = watch

    for area, view in live.views.items():
        serve(area, view)

    @routes.get("/audit", response_class=EventSourceResponse, summary="Watch the audit log")
    async def watch_log(
        request: Request, last_event_id: LastEventId = None
    ) -> AsyncIterable[ServerSentEvent]:
        """`begins`, and a `line` for each that is written from then on; with Last-Event-ID, for each since that."""
        async for at, line in _while_admitted(live.log.lines(last_event_id), access, request):
            shown = AuditLineOut.of(line) if line else None
            yield ServerSentEvent(data=shown or {}, event="line" if line else "begins", id=at)

    _ = watch_log
    return routes


async def _while_admitted(
    events: AsyncGenerator[_Event], access: Access, request: Request
) -> AsyncGenerator[_Event]:
    """Ends soon after the caller may not ask any more."""
    loop = asyncio.get_running_loop()
    admitted_until = loop.time() + _ADMITTED_SECONDS
    async with aclosing(events):
        following = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                await asyncio.wait([following], timeout=max(0.0, admitted_until - loop.time()))
                if loop.time() >= admitted_until:
                    if not await access.still(request):
                        return
                    admitted_until = loop.time() + _ADMITTED_SECONDS
                if following.done():
                    event = following.result()
                    if event is None:
                        return
                    yield event
                    following = asyncio.ensure_future(anext(events, None))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
