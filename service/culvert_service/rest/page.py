"""Lists: pages, sort orders, search.

A page has a limit, an opaque cursor, and a Link header (RFC 8288) to the next page. The order of a list is
total, so a page continues exactly after the previous one, even if rows were added or deleted.
"""

from __future__ import annotations

import base64
import datetime
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from culvert_db.text import by_code_point, contains
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import DNS_NAME_MAX
from culvert_proto.phrases import Phrase
from fastapi import Query, Request, Response
from sqlalchemy import ColumnElement, Row, Select, or_, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.rest import strict_json

LIMIT_MAX = 500
_LIMIT = 100
_CURSOR_MAX = 1024
BIGINT_MAX = 2**63 - 1

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
# A part of one of a row's texts, in any case.
Search = Annotated[
    str | None,
    Query(
        max_length=DNS_NAME_MAX,
        pattern=r"^[^\x00]+$",
        description="A part of a row's text: its name, its address, …",
    ),
]
_Row = TypeVar("_Row")
_Query = TypeVar("_Query", bound=Select[*tuple[Any, ...]])
# A value of a sort column, as in a cursor.
Key = str | int | datetime.datetime | uuid.UUID
# In place of a time that is absent, because a cursor's values are never null: it sorts before all others.
NEVER = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Cut:
    """The range that a repository reads: `count` rows after `after` (None: from the start)."""

    after: tuple[Key, ...] | None
    count: int

    def of(self, query: _Query, *order: Any, falling: bool = False) -> _Query:
        """`order`: the sort columns, whose values `after` has."""
        order = tuple(by_code_point(column) for column in order)
        if self.after is not None:
            place = tuple_(*order)
            query = query.where(place < self.after if falling else place > self.after)
        return query.order_by(*(column.desc() for column in order) if falling else order).limit(self.count)


class Page:
    """A FastAPI dependency: the requested page."""

    def __init__(
        self,
        request: Request,
        response: Response,
        limit: Limit = _LIMIT,
        cursor: Annotated[
            str | None, Query(max_length=_CURSOR_MAX, description="From the previous page's Link header")
        ] = None,
    ) -> None:
        self._limit = limit
        self._cursor = cursor
        self._request = request
        self._response = response

    def by(self, *kinds: type[Key]) -> Cut:
        """The cut for a list whose sort columns have these types. Raises CulvertError REQUEST_INVALID."""
        # An extra row shows whether there is a page after this one.
        return Cut(_decode(self._cursor, kinds) if self._cursor else None, self._limit + 1)

    def cut(self, rows: Sequence[_Row], place: Callable[[_Row], tuple[Key, ...]]) -> list[_Row]:
        """The page's rows; sets the Link header if there is a next page. `place`: a row's values of the sort columns."""
        shown = list(rows[: self._limit])
        if len(rows) > self._limit:
            self.go_on(place(shown[-1]))
        return shown

    def go_on(self, place: tuple[Key, ...]) -> None:
        """Set the Link header: the next page begins after this place."""
        url = self._request.url.include_query_params(cursor=_encode(place))
        self._response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'


@dataclass(frozen=True, slots=True)
class Order:
    """A sort order of a list: a column that is never null, and the type of its values."""

    column: Any
    kind: type[Key]


class Sort:
    """The requested page of a list, in the requested order."""

    def __init__(self, page: Page, orders: Mapping[str, Order], asked: str, last: Order) -> None:
        """`asked`: a name in `orders`; a leading `-` reverses it. `last`, of a unique column, sorts rows that are equal."""
        order = orders[asked.removeprefix("-")]
        self._page = page
        self._orders = (last,) if order is last else (order, last)
        self._falling = asked.startswith("-")

    async def read(
        self, session: AsyncSession, query: Select[*tuple[Any, ...]]
    ) -> list[Row[*tuple[Any, ...]]]:
        """The page's rows. Sets the Link header if there is a next page. Raises CulvertError REQUEST_INVALID.

        The database gives the rows' sort values, because Python may fold the case of a letter in another way.
        """
        cut = self._page.by(*(order.kind for order in self._orders))
        columns = [order.column for order in self._orders]
        keys = [column.label(f"sort_{number}") for number, column in enumerate(columns)]
        found = await session.execute(cut.of(query, *columns, falling=self._falling).add_columns(*keys))
        return self._page.cut(found.all(), lambda row: tuple(row[-len(keys) :]))

    async def entities(self, session: AsyncSession, query: Select[_Row]) -> list[_Row]:
        """As `read`, of a query for one entity."""
        return [row[0] for row in await self.read(session, query)]


def contains_text(text: str, *columns: Any) -> ColumnElement[bool]:
    return or_(*(contains(column, text) for column in columns))


def _encode(place: tuple[Key, ...]) -> str:
    values = [key if isinstance(key, int) else _text(key) for key in place]
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def _text(key: str | datetime.datetime | uuid.UUID) -> str:
    return key.isoformat() if isinstance(key, datetime.datetime) else str(key)


def _decode(cursor: str, kinds: Sequence[type[Key]]) -> tuple[Key, ...]:
    try:
        content = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        values: Any = strict_json.parse(content, _CURSOR_MAX)
        return tuple(_key(value, kind) for value, kind in zip(values, kinds, strict=True))
    except (ValueError, TypeError, OverflowError):
        why = Phrase("the cursor is not one that this list has given out")
        raise CulvertError(Reason.REQUEST_INVALID, why=why) from None


def _key(value: object, kind: type[Key]) -> Key:
    """Raises ValueError."""
    if kind is int and type(value) is int and -BIGINT_MAX <= value <= BIGINT_MAX:
        return value
    if kind is str and isinstance(value, str) and "\0" not in value:
        return value.encode().decode()
    if kind is datetime.datetime and isinstance(value, str):
        at = datetime.datetime.fromisoformat(value)
        if at.tzinfo is not None:
            return at.astimezone(datetime.UTC)
    if kind is uuid.UUID and isinstance(value, str):
        return uuid.UUID(value)
    raise ValueError(kind.__name__)
