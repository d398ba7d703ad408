"""Pages of a list: a limit, an opaque cursor, and a Link header (RFC 8288) to the next page."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated, TypeVar

from culvert_proto import CulvertError, Reason
from fastapi import Query, Request, Response

LIMIT_MAX = 500
_LIMIT = 100
_CURSOR_MAX = 512

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
_Row = TypeVar("_Row")


class Page:
    """A FastAPI dependency: what was asked for. A repository reads `limit` + 1 rows after `after`."""

    def __init__(
        self,
        request: Request,
        response: Response,
        limit: Limit = _LIMIT,
        cursor: Annotated[
            str | None, Query(max_length=_CURSOR_MAX, description="From the Link header of the page before")
        ] = None,
    ) -> None:
        self.limit = limit
        self.after = _decoded(cursor) if cursor else None
        self._request = request
        self._response = response

    def cut(self, rows: list[_Row], place: list[str | int]) -> list[_Row]:
        """The page; `place` is where its last row stands, and goes into the Link header when there are more."""
        if len(rows) <= self.limit:
            return rows
        url = self._request.url.include_query_params(cursor=_encoded(place))
        self._response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
        return rows[: self.limit]


def _encoded(place: list[str | int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _decoded(cursor: str) -> list[str | int]:
    try:
        place: object = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        place = None
    if not isinstance(place, list) or not all(isinstance(part, str | int) for part in place):  # pyright: ignore[reportUnknownVariableType]
        raise CulvertError(Reason.REQUEST_INVALID, why="the cursor is not one that this list has given out")
    return place  # pyright: ignore[reportUnknownVariableType]
