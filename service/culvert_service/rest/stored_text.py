"""Fields of answers whose texts were stored in English, and are told in the language of Accept-Language.

A response model marks such a field with the type `StoredText`; then each route that answers with the model tells it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from culvert_proto.language import SOURCE
from culvert_proto.stored_text import localise_text
from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from culvert_service.rest.problem import asked_language


class _Mark:
    def __repr__(self) -> str:
        return "stored text"


_MARK = _Mark()
StoredText = Annotated[str, _MARK]

# The marked fields of a model: True, or those of a model inside of it.
Marked = Mapping[str, "Marked | bool"]


def marked(shown: object) -> Marked | bool:
    """The marked fields of a type: a model, or lists, values of dicts and unions of models. Empty: none."""
    if isinstance(shown, type) and issubclass(shown, BaseModel):
        found: dict[str, Marked | bool] = {}
        for name, field in shown.model_fields.items():
            if inside := _MARK in field.metadata or marked(field.annotation):
                found[name] = inside
        return found
    origin, args = get_origin(shown), get_args(shown)
    if origin is Annotated:
        return _MARK in args or marked(args[0])
    if origin in (Union, UnionType):
        parts = [it for it in map(marked, args) if it]
        return (
            True if True in parts else {name: it for part in parts for name, it in cast(Marked, part).items()}
        )
    return next((it for it in map(marked, args) if it), False)


def localise(value: object, fields: Marked | bool, language: str) -> Any:
    """JSON with the marked texts in this language."""
    if isinstance(value, list):
        return [localise(it, fields, language) for it in cast("list[object]", value)]
    if fields is True:
        return localise_text(value, language) if isinstance(value, str) else value
    if fields is False or not isinstance(value, dict):
        return value
    row = cast("dict[str, object]", value)
    return {name: localise(it, fields[name], language) if name in fields else it for name, it in row.items()}


class LocalisedRoute(APIRoute):
    """A route that tells the marked fields of its answer in the language of the request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, fields = super().get_route_handler(), marked(self.response_model)
        if not fields:
            return handle

        async def handle_localised(request: Request) -> Response:
            answer, language = await handle(request), asked_language(request)
            # Some models of a route may also be told as files.
            if language == SOURCE or answer.headers.get("Content-Type") != "application/json":
                return answer
            told = localise(json.loads(bytes(answer.body)), fields, language)
            answer.body = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
            answer.headers["Content-Length"] = str(len(answer.body))
            answer.headers["Content-Language"] = language
            return answer

        return handle_localised
