"""Read-only fields: a PUT ignores fields of a GET that it cannot change if their values are unchanged, else refuses them.

A response model lists in `observed` its fields that change without a new version, such as counters. A PUT accepts any
value of these.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar, cast, get_args

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from pydantic import BaseModel, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, core_schema

from culvert_service.rest.field import FieldError
from culvert_service.rest.version import MayMatch

_In = TypeVar("_In", bound=BaseModel)
_Out = TypeVar("_Out", bound=BaseModel)


class AsRead(Generic[_In, _Out]):
    """The body of a PUT: the requested fields, and read-only fields from a GET. In OpenAPI it is an `_In`."""

    def __init__(self, asked: _In, read: Mapping[str, object]) -> None:
        self.asked = asked
        self._read = read

    async def check(self, get: Callable[[], Awaitable[tuple[_Out, int]]], seen: MayMatch) -> None:
        """Compare the read-only fields with the result of `get`. Raises CulvertError NOT_FOUND or REQUEST_INVALID."""
        if not self._read:
            return
        shown, version = await get()
        try:
            seen.check("", version)
        except CulvertError:
            # The change itself raises the same error.
            return
        for name, sent in self._read.items():
            if not _same(shown, name, sent):
                why = Phrase("{name} is read-only. Leave it out, or send it as it was read", name=name)
                raise FieldError(f"/{name}", Reason.REQUEST_INVALID, why=why)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        asked, shown = cast("tuple[type[_In], type[_Out]]", get_args(source))
        fixed = {*shown.model_fields, *shown.model_computed_fields} - {
            *asked.model_fields,
            *_observed_fields(shown),
        }

        def apart(value: object, validate: core_schema.ValidatorFunctionWrapHandler) -> AsRead[_In, _Out]:
            fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
            read = {name: one for name, one in fields.items() if name in fixed}
            rest = {name: one for name, one in fields.items() if name not in fixed}
            return cls(validate(_drop_observed(asked, shown, rest) if fields else value), read)

        return core_schema.no_info_wrap_validator_function(apart, handler(asked))


def _observed_fields(shown: type[BaseModel]) -> frozenset[str]:
    return getattr(shown, "observed", frozenset())


def _drop_observed(asked: type[BaseModel], shown: type[BaseModel], value: object) -> object:
    """The value without observed fields, also in lists of models."""
    if not isinstance(value, dict):
        return value
    rest: dict[str, object] = {}
    for name, one in cast("dict[str, object]", value).items():
        if name in asked.model_fields:
            inner = _of_list(asked, name), _of_list(shown, name)
            if inner[0] and inner[1] and isinstance(one, list):
                one = [_drop_observed(inner[0], inner[1], it) for it in cast("list[object]", one)]
            rest[name] = one
        elif name not in _observed_fields(shown):
            rest[name] = one
    return rest


def _of_list(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The model of a list's items."""
    field = model.model_fields.get(name)
    items = get_args(field.annotation) if field is not None else ()
    return items[0] if items and isinstance(items[0], type) and issubclass(items[0], BaseModel) else None


def _same(shown: BaseModel, name: str, sent: object) -> bool:
    kind = type(shown)
    stored = kind.model_fields.get(name)
    expected: Any = stored.annotation if stored else kind.model_computed_fields[name].return_type
    try:
        # Compare parsed values: a time has several spellings.
        return TypeAdapter(expected).validate_python(sent) == getattr(shown, name)
    except ValidationError:
        return False
