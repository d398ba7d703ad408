"""REST: the audit log: list, verify, export."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from culvert_db import Database, Outcome, clock
from culvert_proto.contract import DNS_NAME_MAX
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import StreamingResponse

from culvert_service.audit import repository
from culvert_service.audit.cut import CutKey
from culvert_service.audit.export import ExportResponse, Exports
from culvert_service.audit.naming import name_lines
from culvert_service.audit.repository import Filter
from culvert_service.audit.schemas import (
    BrokenOut,
    ChainOut,
    HourOut,
    NamedLineOut,
    RetentionOut,
    VerificationOut,
)
from culvert_service.audit.verifier import Verifier
from culvert_service.rest.api import Api
from culvert_service.rest.page import Page
from culvert_service.rest.problem import asked_language
from culvert_service.rest.request import Moment

_Text = Annotated[str | None, Query(max_length=DNS_NAME_MAX, pattern=r"^[^\x00]+$")]
# A week.
HOURS_MAX = 168


def _filter(
    actor: _Text = None,
    action: _Text = None,
    object: _Text = None,
    outcome: Outcome | None = None,
    reason: _Text = None,
    since: Moment | None = None,
    until: Moment | None = None,
    person: Annotated[_Text, Query(description="The login name: only lines of this person's devices")] = None,
    q: Annotated[
        _Text, Query(description="A part of a name of a person, a device, a resource or an actor")
    ] = None,
) -> Filter:
    return Filter(actor, action, object, outcome, reason, since, until, person, q)


def router(api: Api, database: Database, key: CutKey, keep_days: int | None) -> APIRouter:
    routes = api.router("/audit", tag="audit")
    verifier, exports = Verifier(database, key), Exports(database)

    @routes.get("", summary="List the audit log, newest first unless sorted otherwise")
    async def list_lines(
        request: Request,
        page: Annotated[Page, Depends()],
        which: Annotated[Filter, Depends(_filter)],
        sort: Literal["at", "-at"] = "-at",
    ) -> list[NamedLineOut]:
        """With `q` a page can have fewer lines than its limit, or none, and a next page all the same: a search reads a
        bounded number of lines for each page.
        """
        cut, falling = page.by(datetime.datetime, int, int), sort == "-at"
        async with database() as session:
            found, end = await repository.by_time(session, which, cut, falling=falling)
            shown = page.cut(found, lambda line: (line.at, line.chain, line.seq))
            if end is not None:
                page.go_on(end)
            return await name_lines(session, shown, asked_language(request))

    @routes.get("/verification", summary="Check the whole audit log")
    async def verification() -> VerificationOut:
        """Computes every line's hash again (docs/audit.md): 100,000 lines take some seconds. Requests during a
        verification get its result.
        """
        found = await verifier.result()
        broken = found.broken
        return VerificationOut(
            lines=found.lines,
            ends=[
                ChainOut(chain=it, seq=seq, hash=end.hex()) for it, (seq, end) in sorted(found.ends.items())
            ],
            broken=BrokenOut(chain=broken.chain, seq=broken.seq, why=broken.why) if broken else None,
        )

    @routes.get("/retention", summary="Show since when the audit log is kept")
    async def retention() -> RetentionOut:
        async with database() as session:
            cuts = [one for of_chain in (await repository.cuts(session)).values() for one in of_chain]
            since = max(one.before for one in cuts) if cuts else await repository.oldest(session)
        return RetentionOut(
            keep_days=keep_days,
            kept_since=since,
            removed=sum(one.lines for one in cuts),
            key=key.public.hex(),
        )

    @routes.get("/hours", summary="Count openings and refusals of the last hours")
    async def hours(
        hours: Annotated[
            int, Query(ge=1, le=HOURS_MAX, description="The number of hours, with this one")
        ] = 24,
    ) -> list[HourOut]:
        """One row for each hour, oldest first, also for an hour without any."""
        async with database() as session:
            last = (await clock(session)).replace(minute=0, second=0, microsecond=0)
            every = [last - datetime.timedelta(hours=ago) for ago in reversed(range(hours))]
            found = await repository.count_hours(session, every[0])
        return [
            HourOut(at=at, opened=opened, denied=denied)
            for at in every
            for opened, denied in [found.get(at, (0, 0))]
        ]

    @routes.get(
        "/export",
        summary="Export the audit log as JSON lines, chain by chain",
        response_class=StreamingResponse,
        responses={200: {"content": {"application/jsonl": {}}}},
    )
    async def export(which: Annotated[Filter, Depends(_filter)]) -> ExportResponse:
        """Each line has its hash. docs/audit.md says how to check an export without filters, from the file alone.

        At most two exports run at a time. An export ends when its reader takes nothing for ten seconds.
        """
        return ExportResponse(exports, which)

    _ = (list_lines, verification, retention, hours, export)
    return routes
