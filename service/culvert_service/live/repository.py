"""SQL about the versions of rows: the xmin, the transaction that wrote the row, so that changes by any process show."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from culvert_db import Base, DnsRecord, Tunnel
from sqlalchemy import ColumnElement, Text, literal_column, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession


async def tunnel_versions(session: AsyncSession) -> dict[uuid.UUID, str]:
    """By the tunnel's id."""
    found = await session.execute(select(Tunnel.id, _xmin(Tunnel)).where(Tunnel.stays()))
    return {row[0]: row[1] for row in found}


async def record_versions(session: AsyncSession) -> dict[tuple[str, str, str], str]:
    """By the record's zone, type and name."""
    query = select(DnsRecord.zone, DnsRecord.type, DnsRecord.name, _xmin(DnsRecord))
    return {(zone, kind, name): version for zone, kind, name, version in await session.execute(query)}


async def records(session: AsyncSession, places: Collection[tuple[str, ...]]) -> Sequence[DnsRecord]:
    """The records of these zones, types and names."""
    place = tuple_(DnsRecord.zone, DnsRecord.type, DnsRecord.name)
    return (await session.scalars(select(DnsRecord).where(place.in_(places)))).all()


def _xmin(table: type[Base]) -> ColumnElement[str]:
    return literal_column(f"{table.__tablename__}.xmin::text", Text())
