"""Small numbers of a gateway's: drawn by the database, which knows those that are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Column, ColumnElement, FromClause, Integer, bindparam, cast, func, literal, select

# So many that one of them is free although nearly all numbers are taken.
_DRAWN = 16


def free_number(
    column: Column[Any], numbers: int, *also: Callable[[FromClause], ColumnElement[bool]]
) -> ColumnElement[int]:
    """For an insertion at the gateway `:gateway_id`: of several numbers below `numbers`, one that no row there has.

    `also` says which rows of the gateway count. That it is still free, or is so at all, is for a constraint to say.
    """
    drawn = cast(func.floor(func.random() * numbers), Integer).label("number")
    candidate = select(drawn).select_from(func.generate_series(1, _DRAWN)).subquery()
    taken = column.table.alias()
    has_it = (taken.c.gateway_id == bindparam("gateway_id"), taken.c[column.name] == candidate.c.number)
    # The offset keeps it a look into an index for each number; a join would read the table.
    holder = select(literal(1)).where(*has_it, *(one(taken) for one in also)).offset(0)
    nobody = ~holder.correlate_except(taken).exists()
    return func.coalesce(select(candidate.c.number).where(nobody).limit(1).scalar_subquery(), 0)
