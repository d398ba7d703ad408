"""The tables' common parts: the metadata with names for constraints, and common column types."""

from __future__ import annotations

import datetime
import enum
import uuid
from typing import Annotated, Any, ClassVar

from sqlalchemy import BigInteger, DateTime, Enum, Identity, LargeBinary, MetaData, Text, Uuid, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, mapped_column

# All constraints have names, by which programs distinguish conflicts and migrations drop constraints.
_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text(),
        bytes: LargeBinary(),
        uuid.UUID: Uuid(),
        datetime.datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB(),
    }


Number = Annotated[int, mapped_column(BigInteger, Identity(), primary_key=True)]
# The number of changes by administrators, counted by triggers; used as the ETag.
Version = Annotated[int, mapped_column(BigInteger, server_default="1")]
CreatedAt = Annotated[datetime.datetime, mapped_column(DateTime(timezone=True), server_default=func.now())]


def _values(states: type[enum.StrEnum]) -> list[str]:
    return [state.value for state in states]


def state_column(states: type[enum.StrEnum]) -> Enum:
    """A text column with a check constraint: a new state is an ordinary migration, not an ALTER TYPE."""
    return Enum(
        states,
        native_enum=False,
        create_constraint=True,
        length=None,
        name=states.__name__.lower(),
        values_callable=_values,
    )
