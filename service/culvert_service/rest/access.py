"""The one way in for administrators: who calls, by token or session, and whether they may."""

from __future__ import annotations

import hmac
from typing import Annotated

from culvert_db import ActorKind, Role, Sessions
from culvert_proto import CulvertError, Reason
from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from culvert_service.admins.permission import ByRole, Caller, check
from culvert_service.admins.service import Admins, by_role, csrf_token
from culvert_service.audit import log as audit
from culvert_service.audit.log import Actor, Line, acting
from culvert_service.rest.admin_token import NAME, AdminToken
from culvert_service.rest.rates import Rates
from culvert_service.rest.source import source

# The prefix binds it to this host, to TLS and to the path / (RFC 6265bis section 4.1.3.2).
COOKIE = "__Host-culvert"
CsrfToken = Annotated[
    str | None, Header(alias="X-CSRF-Token", description="With a session's cookie, for every write")
]
_BEARER = HTTPBearer(
    auto_error=False,
    description="An API token, or the content of admin-token in the controller's state directory",
)
_SAFE = ("GET", "HEAD")


class Access:
    def __init__(self, sessions: Sessions, root: AdminToken, admins: Admins, rates: Rates) -> None:
        self._sessions = sessions
        self._root = root
        self._admins = admins
        self._rates = rates

    async def __call__(
        self,
        request: Request,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
        csrf: CsrfToken = None,
    ) -> None:
        """A FastAPI dependency. Raises CulvertError ADMIN_TOKEN_INVALID, SESSION_INVALID, CSRF_INVALID, NOT_PERMITTED
        or RATE_LIMITED.
        """
        try:
            caller = await (
                self._by_token(request, credentials.credentials)
                if credentials
                else self._by_session(request, csrf)
            )
        except CulvertError:
            self._rates.stranger(request)
            raise
        self._rates.caller()
        area = request.url.path.removeprefix("/api/v1/").split("/", 1)[0]
        try:
            check(caller, request.method, area)
        except CulvertError as error:
            line = Line(f"{area}.{request.method.lower()}", request.url.path)
            await audit.denied(self._sessions, line, error)
            raise

    async def _by_token(self, request: Request, token: str) -> Caller:
        caller = ByRole(NAME, Role.OWNER) if self._root.matches(token) else await self._admins.by_token(token)
        if caller is None:
            raise CulvertError(Reason.ADMIN_TOKEN_INVALID)
        acting.set(Actor(ActorKind.TOKEN, caller.name, source(request)))
        return caller

    async def _by_session(self, request: Request, csrf: str | None) -> Caller:
        token = request.cookies.get(COOKIE)
        if token is None:
            raise CulvertError(Reason.ADMIN_TOKEN_INVALID)
        signed_in = await self._admins.session(token)
        if signed_in is None:
            raise CulvertError(Reason.SESSION_INVALID)
        check_csrf(request, token, csrf)
        acting.set(Actor(ActorKind.ADMIN, signed_in.name, source(request)))
        return by_role(signed_in)


def check_csrf(request: Request, token: str, csrf: str | None) -> None:
    """A browser sends the cookie by itself; this header only a page that has read an answer of ours."""
    if request.method not in _SAFE and not hmac.compare_digest(
        csrf_token(token).encode(), (csrf or "").encode()
    ):
        raise CulvertError(Reason.CSRF_INVALID)
