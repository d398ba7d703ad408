"""Free slots and endpoints of a gateway. The database draws them, because it knows the taken numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from culvert_db import Direction, SecurityAssociation
from culvert_proto.contract import SAS
from sqlalchemy import Column, ColumnElement, FromClause, Integer, Table, bindparam, func, literal, select
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.dml import ReturningInsert

_SAS = cast("Table", SecurityAssociation.__table__)
# Candidates per draw: so many that one is probably free even when most numbers are taken.
_DRAWN = 16
_OF_BOTH = ("gateway_id", "generation", "tag", "crypto_port")


def draw_free_number(
    column: Column[Any], numbers: int, *also: Callable[[FromClause], ColumnElement[bool]]
) -> ColumnElement[int]:
    """For an insertion at the gateway `:gateway_id`: a random number below `numbers` that no row there has; 0 if none is
    found.

    `also` limits the rows of the gateway that count. Only the table's constraint guarantees that the number is free.
    """
    drawn = sql_cast(func.floor(func.random() * numbers), Integer).label("number")
    candidate = select(drawn).select_from(func.generate_series(1, _DRAWN)).subquery()
    taken = column.table.alias()
    has_it = (taken.c.gateway_id == bindparam("gateway_id"), taken.c[column.name] == candidate.c.number)
    # OFFSET 0 makes Postgres look up each number in the index; a join would read the table.
    holder = select(literal(1)).where(*has_it, *(one(taken) for one in also)).offset(0)
    nobody = ~holder.correlate_except(taken).exists()
    return func.coalesce(select(candidate.c.number).where(nobody).limit(1).scalar_subquery(), 0)


def insert_sas(*owner: str) -> ReturningInsert[Any, Any, Any]:
    """Insert a pair whose owner these columns name. Returns id, direction and slot of each SA that got free numbers.

    Takes `gateway_id`, `generation`, `tag`, `crypto_port`, and `{direction}_spi` and `{direction}_sa_id` of each direction.
    """
    return (
        insert(_SAS)
        .values([_bind_values(direction, owner) for direction in Direction])
        .on_conflict_do_nothing()
        .returning(_SAS.c.id, _SAS.c.direction, _SAS.c.slot)
    )


def _bind_values(direction: Direction, owner: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {name: bindparam(name) for name in (*owner, *_OF_BOTH)}
    values |= {name: bindparam(f"{direction}_{name}") for name in ("spi", "sa_id")}
    values["direction"] = direction.value
    values["slot"] = draw_free_number(_SAS.c.slot, SAS, lambda taken: taken.c.direction == direction.value)
    return values
