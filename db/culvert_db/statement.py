"""Statements that are compiled once, and whole rows as JSON: for what a person waits for.

There, the mapper's own work (a key for its cache, conversions, an identity map) takes several times what Postgres does.
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
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session
from sqlalchemy.sql.expression import ClauseElement

from culvert_db.base import Base
from culvert_db.transaction import Direct

_Row = TypeVar("_Row", bound=Base)
_DIALECT = asyncpg.dialect(native_inet_types=False)  # pyright: ignore[reportUnknownMemberType]


class Statement:
    """Goes to the driver as it is, in the session's transaction: values and results are asyncpg's, and an enum is its text.

    Rows that the session holds as objects are not brought up to date.
    """

    def __init__(self, statement: ClauseElement) -> None:
        compiled = statement.compile(dialect=_DIALECT)
        self._text = str(compiled)
        self._names = tuple(cast("Sequence[str]", compiled.positiontup))  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
        # The statement's own constants; None stands for a parameter.
        self._given = {name: value for name, value in (compiled.params or {}).items() if value is not None}

    async def run(self, session: AsyncSession | Direct, **values: object) -> None:
        """For one that returns nothing. Raises KeyError for a value that is not given, as all of these."""
        if isinstance(session, Direct):
            await session.driver.execute(self._text, *self._positions(values))
        else:
            await (await session.connection()).exec_driver_sql(self._text, self._positions(values))

    async def rows(self, session: AsyncSession | Direct, **values: object) -> list[tuple[Any, ...]]:
        if isinstance(session, Direct):
            return await session.driver.fetch(self._text, *self._positions(values))
        connection = await session.connection()
        found = await connection.exec_driver_sql(self._text, self._positions(values))
        return [tuple(row) for row in found]

    async def row(self, session: AsyncSession | Direct, **values: object) -> tuple[Any, ...] | None:
        """The only one, if any."""
        found = await self.rows(session, **values)
        assert len(found) <= 1
        return found[0] if found else None

    def run_last(self, direct: Direct, values: Mapping[str, object]) -> None:
        """Just before the commit."""
        direct.last(self._text, self._positions(values))

    def run_in(self, session: Session, rows: Sequence[Mapping[str, object]]) -> None:
        """Once for each row, from inside of an event of the session."""
        positions = [self._positions(row) for row in rows]
        session.connection().exec_driver_sql(self._text, positions if len(positions) > 1 else positions[0])

    def _positions(self, values: Mapping[str, object]) -> tuple[Any, ...]:
        return tuple(self._given[name] if name in self._given else values[name] for name in self._names)


def as_json(kind: type[Base], *, without: Sequence[str] = ()) -> ColumnElement[str]:
    """A row as a text that `from_json` reads; null when an outer join found no row. Leaves the columns `without` out."""
    row = func.to_jsonb(cast("Table", kind.__table__).table_valued())
    return sql_cast(functools.reduce(lambda left, column: left.op("-")(column), without, row), Text)


def from_json(kind: type[_Row], text: str) -> _Row:
    """An object of no session; a column that is not in the text is not set."""
    found: dict[str, Any] = json.loads(text)
    return kind(
        **{name: value if value is None else _reader(kind, name)(value) for name, value in found.items()}
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
