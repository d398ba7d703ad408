"""The REST API as one FastAPI application, with a reference page that needs no internet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from culvert_db import Database
from fastapi import APIRouter, Depends, FastAPI
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.responses import PlainTextResponse, RedirectResponse

from culvert_service.admins.access import Access
from culvert_service.admins.rates import Rates
from culvert_service.http import console, documentation, health, reference
from culvert_service.http.admission import Admission, AdmissionCheck, endpoints
from culvert_service.http.headers import SafeHeaders
from culvert_service.http.idempotency import Idempotency, Now
from culvert_service.pki.master_key import MasterKey
from culvert_service.rest import problem
from culvert_service.rest.api import PREFIX
from culvert_service.rest.reads_again import ReadsAgain
from culvert_service.tasks import Periodic

_JOIN = """\
This link is for the computer that becomes a gateway. Run there, as root:  culvert-gateway join 'LINK'
Dieser Link ist für den Computer, der ein Gateway wird. Dort als root ausführen:  culvert-gateway join 'LINK'
"""
_DESCRIPTION = """
The administration of a Culvert controller. Send `Authorization: Bearer TOKEN` with an API token, or with the content of
`admin-token` in the controller's state directory; or sign in, and send the session's cookie, and with each write its
`X-CSRF-Token`. Enrolment and setup need an invitation's token instead.

A POST with an `Idempotency-Key` has one effect however often it is sent: for a day, each repetition gets the first answer.

Every refusal is `application/problem+json` with a `reason` to branch on, a `detail` and a `remedy` to show.
"""


def application(
    database: Database,
    access: Access,
    rates: Rates,
    master_key: MasterKey,
    now: Now,
    ca_pem: str,
    console_files: Path,
    documentation_files: Path,
    admin: Sequence[APIRouter],
    public: Sequence[APIRouter],
    works: Sequence[Periodic],
) -> FastAPI:
    of_admins = [route for router in admin for route in router.routes]
    of_anyone = [route for router in public for route in router.routes]
    app = FastAPI(
        routes=[*of_admins, *of_anyone],
        title="Culvert controller",
        version="1",
        description=_DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # No redirect to the path with or without a final slash: it would repeat the Host header of the caller.
        redirect_slashes=False,
        responses=problem.REFUSALS,
    )
    problem.install(app)
    reference.install(app, rates)
    documentation.install(app, documentation_files)

    @app.get(
        f"{PREFIX}/ca",
        dependencies=[Depends(rates.anyone)],
        tags=["enrolment"],
        summary="The infrastructure CA, in PEM",
    )
    async def ca() -> PlainTextResponse:
        """For a computer that compares it with the fingerprint in its invitation link, before it sends the token."""
        return PlainTextResponse(ca_pem, media_type="application/x-pem-file")

    has_console = console.install(app, console_files)

    @app.get("/", include_in_schema=False)
    async def front() -> RedirectResponse:
        return RedirectResponse(console.PREFIX if has_console else reference.PATH)

    @app.get("/join", include_in_schema=False)
    async def join() -> PlainTextResponse:
        """A gateway's link in a browser: its token is in the fragment, which no browser sends."""
        return PlainTextResponse(_JOIN)

    health.install(app, database, rates, works)

    known = endpoints(of_admins, AdmissionCheck.PERMISSION) + endpoints(of_anyone, AdmissionCheck.RATE)
    known += endpoints(app.routes[len(of_admins) + len(of_anyone) :], AdmissionCheck.NOTHING)
    # The middleware that is added last sees a request first.
    app.add_middleware(Idempotency, database=database, access=access, master_key=master_key, now=now)
    app.add_middleware(Admission, access=access, rates=rates, endpoints=known)
    app.add_middleware(ExceptionMiddleware, handlers=app.exception_handlers)
    app.add_middleware(ReadsAgain)
    app.add_middleware(SafeHeaders)
    _: Any = (ca, front, join)
    return app
