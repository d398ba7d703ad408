"""Statements that are compiled once, and whole rows as JSON, for calls that a person waits for.

For these the mapper's work (cache keys, conversions, the identity map) takes several times as long as Postgres.
"""

from __future__ import annotations

import datetime
import enum
import functools
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from sqlalchemy import Column, ColumnElement, Table, Text, func
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.sql.expression import ClauseElement

from culvert_db.base import Base

_Row = TypeVar("_Row", bound=Base)
_DIALECT = asyncpg.dialect(native_inet_types=False)  # pyright: ignore[reportUnknownMemberType]


class Statement:
    """A statement compiled for the driver: values and results have asyncpg's types, and an enum is its text.

    `Statements` runs it. Objects of a session are not updated.
    """

    def __init__(self, statement: ClauseElement) -> None:
        compiled = statement.compile(dialect=_DIALECT)
        self.text = str(compiled)
        self._names = tuple(cast("Sequence[str]", compiled.positiontup))  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
        # The statement's own constants; None stands for a parameter.
        self._given = {name: value for name, value in (compiled.params or {}).items() if value is not None}

    def positions(self, values: Mapping[str, object]) -> tuple[Any, ...]:
        """The values in the order of the placeholders. Raises KeyError for a missing value."""
        return tuple(self._given[name] if name in self._given else values[name] for name in self._names)


def as_json(kind: type[Base], *, without: Sequence[str] = ()) -> ColumnElement[str]:
    """A row as a text for `from_json`, without the columns `without`; null if an outer join found no row."""
    row = func.to_jsonb(cast("Table", kind.__table__).table_valued())
    return sql_cast(functools.reduce(lambda left, column: left.op("-")(column), without, row), Text)


def from_json(kind: type[_Row], text: str) -> _Row:
    """An object without a session; columns that are missing in the text are not set. Those that are unknown here, from a
    newer release's schema, are left out.
    """
    found: dict[str, Any] = json.loads(text)
    known = kind.__table__.columns
    return kind(
        **{
            name: value if value is None else _reader(kind, name)(value)
            for name, value in found.items()
            if name in known
        }
    )


@functools.cache
def _reader(kind: type[Base], column: str) -> Callable[[Any], Any]:
    type_ = cast("Column[Any]", kind.__table__.columns[column]).type
    expected = type_.python_type
    if expected is datetime.datetime:
        return datetime.datetime.fromisoformat
    if expected is uuid.UUID:
        return uuid.UUID
    if expected is bytes:
        # As in `\x00ff`.
        return lambda value: bytes.fromhex(value[2:])
    return expected if issubclass(expected, enum.Enum) else _as_it_is


def _as_it_is(value: Any) -> Any:
    return value
