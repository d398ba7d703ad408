"""REST: to the provider of OpenID Connect, and back from it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response, status
from starlette.responses import RedirectResponse

from culvert_service.admins.endpoints import keep
from culvert_service.admins.service import SignedIn
from culvert_service.oidc.flow import LIFETIME
from culvert_service.oidc.schemas import OidcIn, OidcOut
from culvert_service.oidc.service import Oidc

FLOW_COOKIE = "__Host-culvert-oidc"

_Text = Annotated[str | None, Query(max_length=4096)]


def public_router(oidc: Oidc) -> APIRouter:
    """For whoever the provider knows."""
    routes = APIRouter(prefix="/oidc", tags=["sign-in"])

    @routes.post("", summary="Begin to sign in, set up or enrol by OpenID Connect")
    async def begin(asked: OidcIn, response: Response) -> OidcOut:
        url, flow = await oidc.begin(asked)
        # Lax: the browser comes back from the provider's site.
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
        summary="Come back from the provider",
    )
    async def finish(
        request: Request, state: Annotated[str, Query(max_length=256)] = "", code: _Text = None
    ) -> RedirectResponse:
        """To the console, signed in; or to the invitation's link, which Culvert on this computer opens."""
        done = await oidc.finish(request.cookies.get(FLOW_COOKIE), state, code)
        answer = RedirectResponse("/" if isinstance(done, SignedIn) else done.link, status.HTTP_303_SEE_OTHER)
        if isinstance(done, SignedIn):
            keep(answer, done)
        answer.delete_cookie(FLOW_COOKIE, secure=True, httponly=True, samesite="lax")
        return answer

    _ = (begin, finish)
    return routes
