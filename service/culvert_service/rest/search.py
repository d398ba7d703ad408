"""Search in a list: by a part of one of a row's texts, in any case."""

from __future__ import annotations

from typing import Annotated, Any

from culvert_db.text import contains
from culvert_proto.contract import DNS_NAME_MAX
from fastapi import Query
from sqlalchemy import ColumnElement, or_

Search = Annotated[
    str | None,
    Query(
        max_length=DNS_NAME_MAX,
        pattern=r"^[^\x00]+$",
        description="A part of a row's text: its name, its address, …",
    ),
]


def contains_text(text: str, *columns: Any) -> ColumnElement[bool]:
    return or_(*(contains(column, text) for column in columns))
