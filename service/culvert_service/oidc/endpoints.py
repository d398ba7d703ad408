"""REST: the start and the end of a sign-in at the OpenID Connect provider."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, unquote

from culvert_proto import CulvertError
from fastapi import APIRouter, Query, Request, Response, status
from pydantic import ValidationError
from starlette.responses import RedirectResponse

from culvert_service.admins.endpoints import keep
from culvert_service.admins.service import SignedIn
from culvert_service.audit.caller import By
from culvert_service.oidc.flow import LIFETIME
from culvert_service.oidc.schemas import OidcIn, OidcOffer, OidcOut
from culvert_service.oidc.service import Oidc
from culvert_service.rest.api import Api
from culvert_service.rest.problem import Problem, to_problem

FLOW_COOKIE = "__Host-culvert-oidc"
REFUSED_COOKIE = "__Host-culvert-oidc-refused"
_TOLD_SECONDS = 60

_Text = Annotated[str | None, Query(max_length=4096)]


def public_router(api: Api, oidc: Oidc) -> APIRouter:
    """Routes for any person whom the provider knows."""
    routes = api.router("/oidc", tag="sign-in")

    @routes.get("", summary="Show the OpenID Connect provider, if there is one")
    async def offer(request: Request, response: Response) -> OidcOffer:
        cookie = request.cookies.get(REFUSED_COOKIE)
        if cookie is not None:
            response.delete_cookie(REFUSED_COOKIE, secure=True, httponly=True, samesite="lax")
        return OidcOffer(issuer=oidc.issuer, refused=_refusal(cookie))

    @routes.post("", summary="Begin to sign in, set up or enrol by OpenID Connect")
    async def begin(asked: OidcIn, response: Response) -> OidcOut:
        url, flow = await oidc.begin(asked)
        # Lax, because the browser returns from the provider's site.
        response.set_cookie(
            FLOW_COOKIE,
            flow,
            max_age=int(LIFETIME.total_seconds()),
            secure=True,
            httponly=True,
            samesite="lax",
        )
        return OidcOut(url=url)

    @routes.get(
        "/callback",
        status_code=status.HTTP_303_SEE_OTHER,
        response_class=RedirectResponse,
        summary="End a sign-in at the provider",
    )
    async def finish(
        by: By,
        request: Request,
        state: Annotated[str, Query(max_length=256)] = "",
        code: _Text = None,
        error: _Text = None,
        error_description: _Text = None,
    ) -> RedirectResponse:
        """Redirects to the console, with a session or the refusal, or to an invitation link, which the client opens."""
        try:
            done = await oidc.finish(
                by,
                request.cookies.get(FLOW_COOKIE),
                state,
                code,
                (error, error_description),
                request.headers.get("User-Agent"),
            )
        except CulvertError as refusal:
            if "text/html" not in request.headers.get("Accept", ""):
                raise
            return _redirect_with_error(refusal)
        answer = RedirectResponse("/" if isinstance(done, SignedIn) else done.link, status.HTTP_303_SEE_OTHER)
        if isinstance(done, SignedIn):
            keep(answer, done)
        answer.delete_cookie(FLOW_COOKIE, secure=True, httponly=True, samesite="lax")
        return answer

    _ = (offer, begin, finish)
    return routes


def _redirect_with_error(error: CulvertError) -> RedirectResponse:
    """Redirect to the console, which reads the refusal from a cookie and shows it."""
    answer = RedirectResponse("/", status.HTTP_303_SEE_OTHER)
    answer.set_cookie(
        REFUSED_COOKIE,
        quote(to_problem(error).model_dump_json()),
        max_age=_TOLD_SECONDS,
        secure=True,
        httponly=True,
        samesite="lax",
    )
    return answer


def _refusal(cookie: str | None) -> Problem | None:
    try:
        return Problem.model_validate_json(unquote(cookie or ""))
    except ValidationError:
        return None
