"""REST: live views, as one stream of server-sent events (WHATWG HTML, section 9.2).

A browser opens at most six HTTP/1.1 connections to a host: a page uses one of them for all of its views.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import anyio
from culvert_db import Database
from culvert_proto.language import SOURCE
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from culvert_service.admins.access import Access
from culvert_service.audit.schemas import AuditLineOut
from culvert_service.dns.schemas import DnsRecordOut, ZoneOut
from culvert_service.dns.service import Dns
from culvert_service.gateways.schemas import GatewayOut
from culvert_service.gateways.service import Gateways
from culvert_service.live import places
from culvert_service.live.log_view import LogView
from culvert_service.live.sources import DnsSource, GatewaySource, TrafficSource, TunnelSource
from culvert_service.live.view import View
from culvert_service.rest.api import Api
from culvert_service.rest.problem import asked_language
from culvert_service.rest.stored_text import localise, marked
from culvert_service.tunnels.traffic import Throughput

# The caller's permission is checked again after this long.
_ADMITTED_SECONDS = 10.0

_ID_MAX = 1024
LastEventId = Annotated[
    str | None, Header(max_length=_ID_MAX, description="The id of the last event received")
]
Since = Annotated[
    str | None, Query(max_length=_ID_MAX, description="The same, for clients that cannot set headers")
]
_Event = TypeVar("_Event")


class Area(StrEnum):
    """The live views."""

    TUNNELS = "tunnels"
    TRAFFIC = "traffic"
    GATEWAYS = "gateways"
    DNS = "dns"
    AUDIT = "audit"


_STORED = {Area.GATEWAYS: marked(GatewayOut), Area.DNS: marked(ZoneOut | DnsRecordOut)}


class Told(NamedTuple):
    """An event. `place`: the view's position after it."""

    kind: str
    data: Mapping[str, Any]
    place: str


class Live:
    def __init__(self, database: Database, gateways: Gateways, dns: Dns, throughput: Throughput) -> None:
        self._views = {
            Area.TUNNELS: View(TunnelSource(database)),
            Area.TRAFFIC: View(TrafficSource(throughput)),
            Area.GATEWAYS: View(GatewaySource(gateways)),
            Area.DNS: View(DnsSource(database, dns)),
        }
        self._log = LogView(database)

    async def start(self) -> None:
        """Nothing to do: a view polls while somebody watches it."""

    async def stop(self) -> None:
        """End the streams, so that the server need not wait for them."""
        for one in (*self._views.values(), self._log):
            await one.stop()

    def events(self, area: Area, seen: str | None) -> AsyncGenerator[Told]:
        return _lines(self._log, seen) if area is Area.AUDIT else _rows(self._views[area], seen)


async def _answer() -> AsyncGenerator[AsyncExitStack]:
    """A context that exits with the answer. FastAPI leaves the endpoint's own generator to the garbage collector, and its
    sender fails if the client disconnects while an event is being sent.
    """
    async with AsyncExitStack() as answer:
        try:
            yield answer
        except* anyio.BrokenResourceError:
            pass


def router(api: Api, live: Live, access: Access) -> APIRouter:
    routes = api.router("/events", tag="live views")

    @routes.get("", response_class=EventSourceResponse, summary="Watch live views")
    async def watch(
        request: Request,
        view: Annotated[list[Area], Query(min_length=1, max_length=len(Area))],
        answer: Annotated[AsyncExitStack, Depends(_answer)],
        last_event_id: LastEventId = None,
        since: Since = None,
        language: Annotated[
            Literal["en", "de"] | None,
            Query(description="As Accept-Language, for clients that cannot set headers"),
        ] = None,
    ) -> AsyncIterable[ServerSentEvent]:
        """Each event has the name of its view. Its `kind`: `snapshot` with all `rows` by key, `changed` with a `row` and
        its `key`, `gone` with a `key`. The audit log sends `begins`, and then a `line` for each new line.

        With Last-Event-ID, or `since`, each view resumes there if it can, and otherwise starts with a snapshot.
        """
        known = places.parse(last_event_id or since)
        seen = {str(area): known[area] for area in dict.fromkeys(view) if area in known}
        streams = {area: live.events(area, seen.get(area)) for area in dict.fromkeys(view)}
        events = await answer.enter_async_context(aclosing(_while_admitted(_merge(streams), access, request)))
        spoken = language or asked_language(request)
        async for area, told in events:
            seen[area] = told.place
            data = {"kind": told.kind, **_localise(area, told.data, spoken)}
            yield ServerSentEvent(data=data, event=area, id=places.spell(seen))

    _ = watch
    return routes


def _localise(area: Area, data: Mapping[str, Any], language: str) -> Mapping[str, Any]:
    """The event with its rows in this language. The views' rows are shared by all watchers, and stay in English."""
    fields = _STORED.get(area)
    if fields is None or language == SOURCE:
        return data
    if "rows" in data:
        return {**data, "rows": {key: localise(row, fields, language) for key, row in data["rows"].items()}}
    return {**data, "row": localise(data["row"], fields, language)} if "row" in data else data


async def _rows(view: View, seen: str | None) -> AsyncGenerator[Told]:
    async with aclosing(view.events(seen)) as events:
        async for event in events:
            yield Told(event.kind, event.data, event.id)


async def _lines(log: LogView, seen: str | None) -> AsyncGenerator[Told]:
    async with aclosing(log.lines(seen)) as lines:
        async for place, line in lines:
            shown = {"line": AuditLineOut.of(line).model_dump(mode="json")} if line else {}
            yield Told("line" if line else "begins", shown, place)


async def _merge(streams: Mapping[Area, AsyncGenerator[Told]]) -> AsyncGenerator[tuple[Area, Told]]:
    """Merge the streams' events until one of the streams ends."""
    following = {asyncio.ensure_future(anext(events, None)): area for area, events in streams.items()}
    try:
        while True:
            done, _ = await asyncio.wait(following, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                area = following.pop(one)
                told = one.result()
                if told is None:
                    return
                yield area, told
                following[asyncio.ensure_future(anext(streams[area], None))] = area
    finally:
        await asyncio.shield(asyncio.create_task(_close(following, streams.values())))


async def _while_admitted(
    events: AsyncGenerator[_Event], access: Access, request: Request
) -> AsyncGenerator[_Event]:
    """Yield events until the caller loses the permission; checked every _ADMITTED_SECONDS."""
    loop = asyncio.get_running_loop()
    admitted_until = loop.time() + _ADMITTED_SECONDS
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
        await asyncio.shield(asyncio.create_task(_close([following], [events])))


async def _close(following: Collection[asyncio.Future[Any]], streams: Iterable[AsyncGenerator[Any]]) -> None:
    """End streams and the tasks that wait for their next events.

    Run it in a task of its own: when a client disconnects, anyio cancels each await of the answer's task, even cleanup.
    """
    for one in following:
        one.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    for events in streams:
        await events.aclose()
