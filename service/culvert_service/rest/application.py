"""The REST API as one FastAPI application, with a reference page that needs no internet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from culvert_db import Sessions
from fastapi import APIRouter, Depends, FastAPI
from fastapi_offline import FastAPIOffline
from pydantic import BaseModel
from sqlalchemy import text
from starlette.responses import PlainTextResponse, RedirectResponse

from culvert_service.pki.master_key import MasterKey
from culvert_service.rest import problem
from culvert_service.rest.access import Access
from culvert_service.rest.idempotency import Idempotency, Now
from culvert_service.rest.rates import Rates

_DESCRIPTION = """
The administration of a Culvert controller. Send `Authorization: Bearer TOKEN` with an API token, or with the content of
`admin-token` in the controller's state directory; or sign in, and send the session's cookie, and with each write its
`X-CSRF-Token`. Enrolment and setup need an invitation's token instead.

A POST with an `Idempotency-Key` has one effect however often it is sent: for a day, each repetition gets the first answer.

Every refusal is `application/problem+json` with a `reason` to branch on, a `detail` and a `remedy` to show.
"""
_PREFIX = "/api/v1"


class Health(BaseModel):
    status: str


def application(
    sessions: Sessions,
    access: Access,
    rates: Rates,
    master_key: MasterKey,
    now: Now,
    ca_pem: str,
    admin: Sequence[APIRouter],
    public: Sequence[APIRouter],
) -> FastAPI:
    app = FastAPIOffline(
        title="Culvert controller",
        version="1",
        description=_DESCRIPTION,
        redoc_url=None,
        static_url="/docs/assets",
        responses={"default": {"model": problem.Problem, "content": {problem.MEDIA_TYPE: {}}}},
    )
    problem.install(app)
    app.add_middleware(Idempotency, sessions=sessions, access=access, master_key=master_key, now=now)
    for router in admin:
        app.include_router(router, prefix=_PREFIX, dependencies=[Depends(access)])
    for router in public:
        app.include_router(router, prefix=_PREFIX, dependencies=[Depends(rates.anyone)])

    @app.get(
        f"{_PREFIX}/ca",
        dependencies=[Depends(rates.anyone)],
        tags=["enrolment"],
        summary="The infrastructure CA, in PEM",
    )
    async def ca() -> PlainTextResponse:
        """For a computer that compares it with the fingerprint in its invitation link, before it sends the token."""
        return PlainTextResponse(ca_pem, media_type="application/x-pem-file")

    @app.get("/", include_in_schema=False)
    async def front() -> RedirectResponse:
        return RedirectResponse("/docs")

    @app.get("/healthz", tags=["health"], summary="Whether the controller serves")
    async def healthz() -> Health:
        async with sessions() as session:
            await session.execute(text("SELECT 1"))
        return Health(status="ok")

    _: Any = (ca, front, healthz)
    return app
