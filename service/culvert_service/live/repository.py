"""SQL about the versions of rows: the xmin, the transaction that wrote the row, so that changes by any process show."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from culvert_db import Base, Device, DnsRecord, Gateway, Resource, Tunnel, User
from sqlalchemy import ColumnElement, Text, func, literal_column, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession


async def tunnel_versions(session: AsyncSession) -> dict[uuid.UUID, str]:
    """By the tunnel's id: the versions of all rows that the view's row shows. A device and a gateway are written often, so
    that their shown columns stand for them.
    """
    shown = (_xmin(Tunnel), _xmin(User), _xmin(Resource), Device.name, Gateway.name, Gateway.suite)
    query = (
        select(Tunnel.id, func.concat_ws(" ", *shown))
        .join(Device, Device.id == Tunnel.device_id)
        .join(User, User.id == Device.user_id)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .where(Tunnel.stays())
    )
    return {row[0]: row[1] for row in await session.execute(query)}


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
