"""Rows of SAs whose numbers are drawn."""

from __future__ import annotations

from typing import Any, cast

from culvert_db import Direction, SecurityAssociation
from culvert_proto.contract import SAS
from sqlalchemy import Table, bindparam
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.dml import ReturningInsert

from culvert_service.tunnels.free_number import free_number

_SAS = cast("Table", SecurityAssociation.__table__)


def insert_sas(*owner: str) -> ReturningInsert[Any, Any, Any]:
    """A pair, of what these columns name; returns id, direction and slot of what got numbers that nobody else has.

    Takes `gateway_id`, `generation`, `tag`, and `{direction}_spi` and `{direction}_sa_id` of each direction.
    """
    return (
        insert(_SAS)
        .values([_values(direction, owner) for direction in Direction])
        .on_conflict_do_nothing()
        .returning(_SAS.c.id, _SAS.c.direction, _SAS.c.slot)
    )


def _values(direction: Direction, owner: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {name: bindparam(name) for name in (*owner, "gateway_id", "generation", "tag")}
    values |= {name: bindparam(f"{direction}_{name}") for name in ("spi", "sa_id")}
    values["direction"] = direction.value
    values["slot"] = free_number(_SAS.c.slot, SAS, lambda taken: taken.c.direction == direction.value)
    return values
