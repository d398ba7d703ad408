"""CulvertError over HTTP: application/problem+json (RFC 9457). The only mapping."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from culvert_db import why_away
from culvert_proto import CulvertError, Reason
from culvert_proto.dns_name import make_readable
from culvert_proto.language import SOURCE, choose_accepted
from culvert_proto.phrases import Phrase
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from culvert_service.rest.faults import explain
from culvert_service.rest.field import FieldError
from culvert_service.rest.reads_again import DATABASE_DOWN
from culvert_service.rest.version import VersionStaleError

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
# Class 22 in appendix A of Postgres's manual: a value that a type cannot hold, such as a text with a NUL.
_DATA_EXCEPTION = "22"
# Two concurrent changes may violate a constraint although each has checked before.
_FOREIGN_KEY, _UNIQUE = "23503", "23505"
# The most faults in one answer.
_FAULTS_MAX = 20


class MethodError(CulvertError):
    """`allow` is the header of the answer (RFC 9110 section 15.5.6)."""

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        self.allow = ", ".join(allowed)
        super().__init__(Reason.METHOD_NOT_ALLOWED, method=method[:20], allowed=self.allow)


class Fault(BaseModel):
    """`pointer` is the place in the request's body (RFC 6901), or "/" and the query's parameter; empty for the whole."""

    pointer: str
    detail: str


class Problem(BaseModel):
    """`type` is the path of the reason's page at this controller. Branch on `reason`.

    `remedy` says what to do next, `errors` what stands in which field.

    `detail`, `remedy` and `errors` are in the language of the request's Accept-Language, if they are translated.
    `fields` are the reason's, in English.
    """

    type: str
    title: str
    status: int
    detail: str
    reason: str
    remedy: str
    errors: list[Fault] = []
    fields: dict[str, str] = {}


# The refusals of any route, for OpenAPI. `REFUSALS` defines the schema. `SAME_REFUSALS` refers to it, because FastAPI would
# build the model's validator for each route, a tenth of the controller's start.
REFUSALS: dict[int | str, dict[str, Any]] = {"default": {"model": Problem, "content": {MEDIA_TYPE: {}}}}
SAME_REFUSALS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "Default Response",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}


def to_problem(error: CulvertError, faults: Sequence[Fault] = (), language: str = SOURCE) -> Problem:
    detail, remedy = error.localise(language)
    return Problem(
        type=error.page,
        title=error.reason.name.replace("_", " ").capitalize(),
        status=error.entry.http,
        detail=make_readable(detail),
        reason=error.reason.name,
        remedy=remedy,
        errors=list(faults),
        fields=error.fields,
    )


def problem(error: CulvertError, faults: Sequence[Fault] = (), language: str = SOURCE) -> JSONResponse:
    status = error.entry.http
    headers: dict[str, str] = {"Content-Language": language}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, VersionStaleError):
        headers["ETag"] = error.etag
    if isinstance(error, MethodError):
        headers["Allow"] = error.allow
    if status is HTTPStatus.REQUEST_TIMEOUT:
        # On an open connection the rest of the body would be read as the next request (RFC 9110 section 15.5.9).
        headers["Connection"] = "close"
    return JSONResponse(to_problem(error, faults, language).model_dump(), status, headers, MEDIA_TYPE)


def asked_language(request: Request) -> str:
    """The language of the answer: the first of Accept-Language that is known here."""
    return choose_accepted(request.headers.get("Accept-Language", ""))


def _localise(text: str, language: str) -> str:
    return text.localise(language) if isinstance(text, Phrase) else text


def _pointer(place: Sequence[object]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in place[1:])


def _second(state: str, statement: str) -> CulvertError:
    """The error for the second of two concurrent changes, which a constraint has refused."""
    if state == _UNIQUE:
        return CulvertError(Reason.ALREADY_EXISTS, what=Phrase("Something with the same name or address"))
    if statement.startswith("DELETE"):
        return CulvertError(Reason.REQUEST_INVALID, why=Phrase("what it deletes has come into use meanwhile"))
    return CulvertError(Reason.NOT_FOUND, what=Phrase("Something that the request names"))


def install(app: FastAPI) -> None:
    """Every refusal and fault of the application becomes a problem."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, CulvertError)
        request.scope[DATABASE_DOWN] = error.reason is Reason.DATABASE_DOWN
        if isinstance(error, FieldError) and error.pointer:
            language = asked_language(request)
            detail = error.localise(language)[0] if error.why is None else _localise(str(error.why), language)
            return problem(error, [Fault(pointer=error.pointer, detail=make_readable(detail))], language)
        return problem(error, language=asked_language(request))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = explain(error.errors(), error.body)[:_FAULTS_MAX]
        language = asked_language(request)
        whys = [(it, _localise(it.why, language)) for it in found]
        return problem(
            CulvertError(
                Reason.REQUEST_INVALID,
                why="; ".join(f"{'.'.join(map(str, it.place[1:]))}: {why}" for it, why in whys),
            ),
            [Fault(pointer=_pointer(it.place), detail=why) for it, why in whys if it.place[0] == "body"],
            language,
        )

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == HTTPStatus.NOT_FOUND:
            return await refused(
                request, CulvertError(Reason.NOT_FOUND, what=Phrase("The path {path}", path=request.url.path))
            )
        return await refused(request, CulvertError(Reason.REQUEST_INVALID, why=str(error.detail)))

    async def fault(request: Request, error: Exception) -> Response:
        _log.error(
            "request failed", exc_info=error, extra={"method": request.method, "path": request.url.path}
        )
        return problem(CulvertError(Reason.INTERNAL), language=asked_language(request))

    async def database(request: Request, error: Exception) -> Response:
        if why_away(error) is not None:
            return await refused(request, CulvertError(Reason.DATABASE_DOWN))
        state = str(getattr(getattr(error, "orig", None), "sqlstate", ""))
        if state in (_FOREIGN_KEY, _UNIQUE):
            _log.info("a constraint refused", extra={"sqlstate": state, "path": request.url.path})
            return await refused(request, _second(state, str(getattr(error, "statement", ""))))
        if state.startswith(_DATA_EXCEPTION):
            why = Phrase("a text holds a NUL, or a number is too large to be stored")
            return await refused(request, CulvertError(Reason.REQUEST_INVALID, why=why))
        return await fault(request, error)

    app.add_exception_handler(CulvertError, refused)
    app.add_exception_handler(SQLAlchemyError, database)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, fault)
