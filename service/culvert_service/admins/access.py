"""Access control of the administrators' API: identifies the caller by token or session, and checks the permission."""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from culvert_db import ActorKind
from culvert_proto import CulvertError, Reason
from fastapi import Depends, Request
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from culvert_service.admins.admin_token import NAME, AdminToken
from culvert_service.admins.permission import ByRoot, Caller, check, check_proof
from culvert_service.admins.rates import Rates
from culvert_service.admins.schemas import SignedInOut
from culvert_service.admins.service import Admins, by_session, csrf_token
from culvert_service.audit.caller import actor, set_actor
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.refusals import Refusals
from culvert_service.rest.request import source

# The prefix binds it to this host, to TLS and to the path / (RFC 6265bis section 4.1.3.2).
COOKIE = "__Host-culvert"
CSRF_HEADER = "X-CSRF-Token"
_CSRF = APIKeyHeader(
    name=CSRF_HEADER,
    auto_error=False,
    description="The session's csrf_token: needed for each write with the session's cookie",
)
CsrfToken = Annotated[str | None, Depends(_CSRF)]
_BEARER = HTTPBearer(
    auto_error=False,
    description="An API token, or the content of admin-token in the controller's state directory",
)
_SAFE = ("GET", "HEAD")
# Live views whose name is not the area that they show.
_SHOWS = {"traffic": "tunnels"}


@dataclass(frozen=True, slots=True)
class Admitted:
    """The caller of a request, and the time of its authentication."""

    caller: Caller
    at: datetime.datetime


@dataclass(frozen=True, slots=True)
class OwnSession:
    """The session of a request about the caller's own account. `hash` is the SHA-256 of the cookie's value."""

    signed_in: SignedInOut
    hash: bytes

    @property
    def name(self) -> str:
        """The administrator's name."""
        return self.signed_in.name


class Access:
    def __init__(self, refusals: Refusals, root: AdminToken, admins: Admins, rates: Rates) -> None:
        self._refusals = refusals
        self._root = root
        self._admins = admins
        self._rates = rates

    async def __call__(
        self,
        request: Request,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
        csrf: CsrfToken = None,
    ) -> None:
        """A FastAPI dependency, whose parameters are for the reference page.

        Raises CulvertError ADMIN_TOKEN_INVALID, SESSION_INVALID, CSRF_INVALID, NOT_PERMITTED or RATE_LIMITED.
        """
        _ = (credentials, csrf)
        await self.admit(request)

    def is_claimed(self, request: Request) -> bool:
        """Whether the request has a token or a session cookie, valid or not."""
        return "Authorization" in request.headers or COOKIE in request.cookies

    async def admit(self, request: Request) -> None:
        """Check the caller, once per request, and make it the request's actor. Raises as `__call__`."""
        if getattr(request.state, "admitted", None):
            return
        try:
            caller = await self._caller(request)
        except CulvertError:
            self._rates.stranger(request)
            raise
        self._rates.caller(actor(request))
        for area in _areas(request):
            try:
                check(caller, request.method, area)
            except CulvertError as error:
                line = Line(f"{area}.{request.method.lower()}", request.url.path)
                await self._refusals.of_caller(actor(request), line, error)
                raise
        request.state.admitted = Admitted(caller, self._admins.now())

    async def own_session(self, request: Request, csrf: CsrfToken = None) -> None:
        """A FastAPI dependency for routes about the caller's own account: any role, but a session and no API token.

        Raises CulvertError SESSION_INVALID or CSRF_INVALID.
        """
        _ = csrf
        token = request.cookies.get(COOKIE)
        if token is None:
            raise CulvertError(Reason.SESSION_INVALID)
        signed_in = await self._session(request, token, request.headers.get(CSRF_HEADER))
        request.state.admitted = Admitted(by_session(signed_in), self._admins.now())
        request.state.own_session = OwnSession(signed_in, hashlib.sha256(token.encode()).digest())

    async def still(self, request: Request) -> bool:
        """Whether the caller would still be admitted now, for a long answer."""
        try:
            caller = await self._caller(request)
            for area in _areas(request):
                check(caller, request.method, area)
        except CulvertError:
            return False
        return True

    async def _caller(self, request: Request) -> Caller:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self._by_token(request, token.strip())
        return await self._by_session(request, request.headers.get(CSRF_HEADER))

    async def _by_token(self, request: Request, token: str) -> Caller:
        caller = ByRoot(NAME) if self._root.matches(token) else await self._admins.by_token(token)
        if caller is None:
            raise CulvertError(Reason.ADMIN_TOKEN_INVALID)
        set_actor(request, Actor(ActorKind.TOKEN, caller.name, source(request)))
        return caller

    async def _by_session(self, request: Request, csrf: str | None) -> Caller:
        token = request.cookies.get(COOKIE)
        if token is None:
            raise CulvertError(Reason.ADMIN_TOKEN_INVALID)
        return by_session(await self._session(request, token, csrf))

    async def _session(self, request: Request, token: str, csrf: str | None) -> SignedInOut:
        signed_in = await self._admins.session(token)
        if signed_in is None:
            raise CulvertError(Reason.SESSION_INVALID)
        _check_csrf(request, token, csrf)
        set_actor(request, Actor(ActorKind.ADMIN, signed_in.name, source(request)))
        return signed_in


def own_session(request: Request) -> OwnSession:
    """The request's session, for routes that depend on Access.own_session."""
    return request.state.own_session


async def fresh_proof(request: Request) -> None:
    """A FastAPI dependency after Access or Access.own_session, for changes that would outlast a stolen session.

    Raises CulvertError PROOF_NEEDED.
    """
    admitted: Admitted = request.state.admitted
    check_proof(admitted.caller, admitted.at)


def _areas(request: Request) -> Sequence[str]:
    """The areas of the API that the request uses. A live view belongs to the area of its rows."""
    area, *rest = str(request.scope["path"]).removeprefix("/api/v1/").split("/")
    # A scope for gateways must not give access to the keys that decrypt their tunnels. The path of a gateway's bundle has
    # two parts more, that of its crypto host's has four.
    if area == "gateways" and len(rest) in (2, 4) and rest[-1] == "bundle":
        area = "gateway-keys"
    views = request.query_params.getlist("view") if area == "events" else []
    return [_SHOWS.get(view, view) for view in views] or [area]


def _check_csrf(request: Request, token: str, csrf: str | None) -> None:
    """A browser adds the cookie to any site's request; only the console, which has read an answer, can add this header."""
    if request.method not in _SAFE and not hmac.compare_digest(
        csrf_token(token).encode(), (csrf or "").encode()
    ):
        raise CulvertError(Reason.CSRF_INVALID)
