"""SQL that reads tunnels whole, to change or end them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import cast

from culvert_db import (
    Address,
    Direct,
    Gateway,
    Resource,
    ResourceGateway,
    SecurityAssociation,
    Statement,
    Tunnel,
    TunnelState,
    as_json,
    from_json,
)
from culvert_proto import CulvertError
from sqlalchemy import (
    ColumnElement,
    Table,
    Uuid,
    and_,
    bindparam,
    exists,
    func,
    select,
)
from sqlalchemy import delete as sql_delete
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.sessions.json_rows import GATEWAY, parse_gateway, parse_inner, parse_resource
from culvert_service.sessions.record import TunnelRecord, parse

_LOCK = Statement(select(Tunnel.id).where(Tunnel.id == bindparam("tunnel_id")).with_for_update())
_REMOVE = Statement(sql_delete(cast("Table", Tunnel.__table__)).where(Tunnel.id == bindparam("tunnel_id")))
_SAS_OF_IT = (
    select(func.array_agg(as_json(SecurityAssociation)))
    .where(SecurityAssociation.tunnel_id == Tunnel.id)
    .correlate(Tunnel)
    .scalar_subquery()
)
_RECORD = (
    select(as_json(Tunnel), _SAS_OF_IT, as_json(Resource), GATEWAY, as_json(Address))
    .join(Resource, Resource.id == Tunnel.resource_id)
    .join(Gateway, Gateway.id == Tunnel.gateway_id)
    .join(Address, and_(Address.gateway_id == Tunnel.gateway_id, Address.device_id == Tunnel.device_id))
)
_RECORD_OF_TUNNEL = Statement(_RECORD.where(Tunnel.id == bindparam("tunnel_id")))
_RECORDS = Statement(_RECORD.where(Tunnel.id == func.any(bindparam("tunnel_ids", type_=ARRAY(Uuid)))))
_RECORDS_OF_GATEWAY = Statement(_RECORD.where(Tunnel.gateway_id == bindparam("gateway_id")))

# Whether a tunnel's gateway still is one of its resource's.
SERVED = (
    exists()
    .where(ResourceGateway.resource_id == Tunnel.resource_id, ResourceGateway.gateway_id == Tunnel.gateway_id)
    .correlate(Tunnel)
)


async def locked(session: AsyncSession | Direct, tunnel_id: uuid.UUID) -> TunnelRecord | None:
    """The tunnel, to itself until this transaction ends."""
    # The lock comes first: rows that are joined to it are read only after whoever had it is through.
    if await _LOCK.row(session, tunnel_id=tunnel_id) is None:
        return None
    row = await _RECORD_OF_TUNNEL.row(session, tunnel_id=tunnel_id)
    return _record(*row) if row else None


def _record(shown: str, sas: Sequence[str] | None, resource: str, gateway: str, inner: str) -> TunnelRecord:
    tunnel = from_json(Tunnel, shown)
    tunnel.sas = [from_json(SecurityAssociation, sa) for sa in sas or ()]
    return parse(tunnel, parse_resource(resource), parse_gateway(gateway), parse_inner(inner))


async def held(session: AsyncSession, *which: ColumnElement[bool]) -> list[TunnelRecord]:
    """The tunnels that match, to themselves until this transaction ends."""
    found = await session.scalars(select(Tunnel.id).where(*which).order_by(Tunnel.id).with_for_update())
    ids = found.all()
    rows = await _RECORDS.rows(session, tunnel_ids=ids) if ids else []
    return [_record(*row) for row in rows]


async def delete(session: AsyncSession, ids: Sequence[uuid.UUID]) -> None:
    await session.execute(sql_delete(Tunnel).where(Tunnel.id.in_(ids)))


async def take(session: AsyncSession, *which: ColumnElement[bool]) -> list[TunnelRecord]:
    """Deletes the tunnels that match, and returns what they were."""
    taken = await held(session, *which)
    await delete(session, [record.id for record in taken])
    return taken


async def unfit(session: AsyncSession, before: Sequence[TunnelRecord]) -> list[TunnelRecord]:
    """Those of the held tunnels that their gateway, resource and addresses describe otherwise by now."""
    if not before:
        return []
    by_id = {record.id: record for record in before}
    rows = await _RECORDS.rows(session, tunnel_ids=list(by_id))
    served = set(await session.scalars(select(Tunnel.id).where(SERVED, Tunnel.id.in_(by_id))))
    by_now = {
        record.id: record for row in rows if (record := _possible(*row)) is not None and record.id in served
    }
    return [was for was in by_id.values() if not was.is_like(by_now.get(was.id))]


def _possible(
    shown: str, sas: Sequence[str] | None, resource: str, gateway: str, inner: str
) -> TunnelRecord | None:
    """None for one that its gateway cannot carry."""
    site = parse_gateway(gateway)
    if not parse_inner(inner).belongs(site.pool, site.pool6):
        return None
    try:
        return _record(shown, sas, resource, gateway, inner)
    except CulvertError:
        return None


async def remove(session: AsyncSession | Direct, tunnel_id: uuid.UUID) -> None:
    """One that is locked."""
    await _REMOVE.run(session, tunnel_id=tunnel_id)


async def on_gateway(session: AsyncSession, gateway_id: int) -> list[TunnelRecord]:
    """The tunnels that a gateway should carry; SAs that have drained are forgotten."""
    await session.execute(
        sql_delete(SecurityAssociation).where(
            SecurityAssociation.gateway_id == gateway_id, SecurityAssociation.drain_until <= func.now()
        )
    )
    left = exists().where(SecurityAssociation.tunnel_id == Tunnel.id)
    await session.execute(
        sql_delete(Tunnel).where(Tunnel.gateway_id == gateway_id, Tunnel.state == TunnelState.LEAVING, ~left)
    )
    rows = await _RECORDS_OF_GATEWAY.rows(session, gateway_id=gateway_id)
    # Thousands of them take longer than whoever opens a tunnel meanwhile should wait.
    return await asyncio.to_thread(lambda: [_record(*row) for row in rows])


async def tunnel_of_sa(session: AsyncSession, gateway_id: int, sa_id: int) -> uuid.UUID | None:
    return await session.scalar(
        select(SecurityAssociation.tunnel_id).where(
            SecurityAssociation.gateway_id == gateway_id, SecurityAssociation.sa_id == sa_id
        )
    )


async def by_sa(session: AsyncSession, gateway_id: int, sa_id: int) -> TunnelRecord | None:
    tunnel_id = await tunnel_of_sa(session, gateway_id, sa_id)
    row = await _RECORD_OF_TUNNEL.row(session, tunnel_id=tunnel_id) if tunnel_id else None
    return _record(*row) if row else None
