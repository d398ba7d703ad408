"""Checks before a request reaches the application: the caller before the body is read, the body before it is parsed.

    path and method ─► authentication, permission, rate ─► size, time, JSON within bounds ─► the application
      404, 405           401, 403, 429                       413, 415, 408, 422

FastAPI would read and parse the whole body first, and only then run the dependencies of the path.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Mount, compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from culvert_service.admins.access import Access
from culvert_service.admins.rates import Rates
from culvert_service.rest import strict_json
from culvert_service.rest.api import PREFIX
from culvert_service.rest.problem import MethodError
from culvert_service.rest.strict_json import JsonError

# The longest time for a whole body.
BODY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Size:
    """Limits of a body: its bytes, and the values and names in its JSON. Parsing a body blocks the loop for under 10 ms."""

    octets: int
    values: int


# Enough for a certificate signing request, an authenticator's answer, and a gateway with 1,024 neighbours.
SMALL = Size(64 << 10, 2_500)
# Enough for 10,000 names of people or resources, of 63 characters each.
LISTS = Size(768 << 10, 12_000)
_WITH_LISTS = re.compile(rf"{PREFIX}/(groups|policies|resources|dns/zones)(/|$)")
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")


class AdmissionCheck(Enum):
    """The check before a body is read."""

    # None, because the answer comes from memory.
    NOTHING = auto()
    # The rate limit of the caller's address.
    RATE = auto()
    # The token or session, its permission and its rate limit.
    PERMISSION = auto()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path of the application, and the methods that it has."""

    path: str
    pattern: re.Pattern[str]
    methods: frozenset[str]
    check: AdmissionCheck
    size: Size
    # Whether the endpoint takes a JSON body.
    reads: bool
    # Whether it answers HEAD itself: a folder then reads no file for it.
    heads: bool = False


def endpoints(routes: Iterable[BaseRoute], check: AdmissionCheck) -> list[Endpoint]:
    return [_endpoint(route, check) for route in routes if isinstance(route, APIRoute | Mount)]


def _endpoint(route: APIRoute | Mount, check: AdmissionCheck) -> Endpoint:
    if isinstance(route, Mount):
        return Endpoint(
            route.path, route.path_regex, frozenset({"GET", "HEAD"}), check, SMALL, reads=False, heads=True
        )
    bulky = check is AdmissionCheck.PERMISSION and _WITH_LISTS.match(route.path)
    return Endpoint(
        route.path,
        compile_path(route.path)[0],
        _methods(route),
        check,
        LISTS if bulky else SMALL,
        reads=route.body_field is not None,
    )


def _methods(route: APIRoute) -> frozenset[str]:
    """HEAD is answered wherever GET is (RFC 9110 section 9.3.2)."""
    methods = frozenset(route.methods or ())
    return methods | {"HEAD"} if "GET" in methods else methods


class Admission:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, access: Access, rates: Rates, endpoints: Sequence[Endpoint]) -> None:
        self._app = app
        self._access = access
        self._rates = rates
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises CulvertError."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        endpoint = await self._endpoint(request)
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        # The metrics count calls by route. The application sets the route only for requests that reach it.
        scope["route"] = endpoint
        if endpoint.check is AdmissionCheck.PERMISSION:
            await self._access.admit(request)
        elif endpoint.check is AdmissionCheck.RATE:
            await self._rates.anyone(request)
        try:
            body = await _body(request, endpoint)
        except ClientDisconnect:
            return
        if body is not None:
            receive = _replay(body, receive)
        if request.method == "HEAD" and not endpoint.heads:
            await self._head(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as GET. The server, for which the method stays HEAD, sends no content."""
        as_get = {**scope, "method": "GET"}

        async def told(message: Message) -> None:
            # Metrics and traces read from the scope what the application has noted there.
            scope.update({**as_get, "method": "HEAD"})
            await send(message)

        await self._app(as_get, receive, told)

    async def _endpoint(self, request: Request) -> Endpoint | None:
        """The request's endpoint; None for an unknown path. Raises CulvertError RATE_LIMITED or METHOD_NOT_ALLOWED."""
        method, path = request.method, str(request.scope["path"])
        here = [endpoint for endpoint in self._endpoints if endpoint.pattern.match(path)]
        for endpoint in here:
            if method in endpoint.methods:
                return endpoint
        await self._rates.anyone(request)
        if not here and method in _METHODS:
            return None
        allowed = sorted(set[str]().union(*(endpoint.methods for endpoint in here)) or _METHODS)
        raise MethodError(request.method, allowed)


async def _body(request: Request, endpoint: Endpoint) -> bytes | None:
    """The request's body; None when the headers announce no body.

    Raises CulvertError BODY_TOO_LARGE, BODY_LATE, MEDIA_TYPE_UNSUPPORTED or REQUEST_INVALID; ClientDisconnect.
    """
    declared = request.headers.get("content-length", "0")
    if not (declared.isascii() and declared.isdigit()):
        raise CulvertError(Reason.REQUEST_INVALID, why=Phrase("Content-Length is not a number"))
    if declared == "0" and "transfer-encoding" not in request.headers:
        return None
    # The lengths of the texts come first: a number of thousands of digits is slow to convert.
    if len(declared) > len(str(endpoint.size.octets)) or int(declared) > endpoint.size.octets:
        raise CulvertError(Reason.BODY_TOO_LARGE, limit=endpoint.size.octets)
    if endpoint.reads:
        _check_type(request)
    body = await _read(request, endpoint.size.octets)
    if endpoint.reads and body:
        try:
            strict_json.parse(body, endpoint.size.values)
        except JsonError as error:
            raise CulvertError(
                Reason.REQUEST_INVALID, why=Phrase("the body cannot be used: {why}", why=error)
            ) from None
        # Let other tasks run before the application parses the body again.
        await asyncio.sleep(0)
    return body


def _check_type(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise CulvertError(
            Reason.MEDIA_TYPE_UNSUPPORTED, found=Phrase("encoded as {encoding}", encoding=encoding[:40])
        )
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise CulvertError(Reason.MEDIA_TYPE_UNSUPPORTED, found=kind[:80] or "of no media type")


async def _read(request: Request, octets_max: int) -> bytes:
    parts = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                parts += part
                if len(parts) > octets_max:
                    raise CulvertError(Reason.BODY_TOO_LARGE, limit=octets_max)
    except TimeoutError:
        raise CulvertError(Reason.BODY_LATE, seconds=int(BODY_SECONDS)) from None
    return bytes(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body that was read, and then the server's messages (the client's disconnect)."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
