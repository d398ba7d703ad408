"""SQL that reads tunnels whole, to change or end them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from culvert_db import (
    Address,
    Device,
    Gateway,
    InSession,
    Resource,
    SecurityAssociation,
    Statement,
    Statements,
    Tunnel,
    TunnelState,
    User,
    as_json,
    from_json,
)
from culvert_proto import CulvertError
from sqlalchemy import (
    ColumnElement,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy import delete as sql_delete
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from culvert_service.gateways.sa import Endpoint
from culvert_service.tunnels.json_rows import GATEWAY, parse_gateway, parse_inner, parse_shape
from culvert_service.tunnels.record import TunnelRecord, parse

# A drain's controller ends it within this time, unless that controller died.
ABANDONED = timedelta(seconds=1)
# The number of rows read of a gateway at a time; endpoints are not negative.
_PORTION = 1000
_BEFORE_ALL = -1

_LOCK = Statement(select(Tunnel.id).where(Tunnel.id == bindparam("tunnel_id")).with_for_update())
_REMOVE = Statement(sql_delete(cast("Table", Tunnel.__table__)).where(Tunnel.id == bindparam("tunnel_id")))
_SAS_OF_IT = (
    select(
        sql_cast(
            func.jsonb_agg(func.to_jsonb(cast("Table", SecurityAssociation.__table__).table_valued())), Text
        )
    )
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
_EARLIER = aliased(Tunnel, name="earlier")
_OWNED = Statement(
    _RECORD.add_columns(
        as_json(Device),
        User.name,
        # As it was when the statement began, beside as it is now that it is locked.
        sql_cast(literal_column("tunnels.xmin"), Text)
        == select(sql_cast(literal_column("earlier.xmin"), Text))
        .where(_EARLIER.id == Tunnel.id)
        .correlate(Tunnel)
        .scalar_subquery(),
    )
    .join(Device, Device.id == Tunnel.device_id)
    .join(User, User.id == Device.user_id)
    .where(Tunnel.id == bindparam("tunnel_id"), Device.shows(bindparam("fingerprint", type_=LargeBinary)))
    # In the order in which a revocation takes them.
    .suffix_with("FOR SHARE OF devices FOR UPDATE OF tunnels")
)
_RECORD_OF_TUNNEL = Statement(_RECORD.where(Tunnel.id == bindparam("tunnel_id")))
_RECORDS = Statement(_RECORD.where(Tunnel.id == func.any(bindparam("tunnel_ids", type_=ARRAY(Uuid)))))
# Their gateway, and resources that many of them share, are not repeated for each.
_OF_GATEWAY = Tunnel.gateway_id == bindparam("gateway_id")
_TUNNELS_OF_GATEWAY = Statement(
    select(Tunnel.endpoint, Tunnel.resource_id, as_json(Tunnel), _SAS_OF_IT, as_json(Address))
    .join(Address, and_(Address.gateway_id == Tunnel.gateway_id, Address.device_id == Tunnel.device_id))
    .where(_OF_GATEWAY, Tunnel.endpoint > bindparam("after"))
    .order_by(Tunnel.endpoint)
    .limit(_PORTION)
)
_SHAPES_OF_GATEWAY = Statement(
    select(Resource.id, as_json(Resource), GATEWAY)
    .join(Gateway, Gateway.id == bindparam("gateway_id"))
    .where(Resource.id == func.any(bindparam("resource_ids", type_=ARRAY(Integer))))
)


async def locked(transaction: Statements, tunnel_id: uuid.UUID) -> TunnelRecord | None:
    """The tunnel, to itself until this transaction ends."""
    # The lock comes first: rows that are joined to it are read only after whoever had it is through.
    if await transaction.row(_LOCK, tunnel_id=tunnel_id) is None:
        return None
    row = await transaction.row(_RECORD_OF_TUNNEL, tunnel_id=tunnel_id)
    return _record(*row) if row else None


async def owned(
    transaction: Statements, fingerprint: bytes, tunnel_id: uuid.UUID
) -> tuple[Device, TunnelRecord] | None:
    """A device and its tunnel, which is this transaction's alone; a revocation waits. None when they do not fit."""
    row = await transaction.row(_OWNED, tunnel_id=tunnel_id, fingerprint=fingerprint)
    if row is None:
        return None
    *shown, device, user, current = row
    if not current:
        # The row had to wait for the transaction that changed it: the joined rows are older.
        shown = await transaction.row(_RECORD_OF_TUNNEL, tunnel_id=tunnel_id)
        assert shown is not None
    found = from_json(Device, device)
    found.user = User(name=user)
    return found, _record(*shown)


def _record(shown: str, sas: str, resource: str, gateway: str, inner: str) -> TunnelRecord:
    return parse(json.loads(shown), json.loads(sas), parse_shape(resource, gateway), parse_inner(inner))


async def held(transaction: InSession, *which: ColumnElement[bool]) -> list[TunnelRecord]:
    """The tunnels that match, to themselves until this transaction ends."""
    found = await transaction.session.scalars(
        select(Tunnel.id).where(*which).order_by(Tunnel.id).with_for_update()
    )
    ids = found.all()
    rows = await transaction.rows(_RECORDS, tunnel_ids=ids) if ids else []
    return [_record(*row) for row in rows]


async def delete(session: AsyncSession, ids: Sequence[uuid.UUID]) -> None:
    await session.execute(sql_delete(Tunnel).where(Tunnel.id.in_(ids)))


async def take(transaction: InSession, *which: ColumnElement[bool]) -> list[TunnelRecord]:
    """Deletes the tunnels that match, and returns what they were."""
    taken = await held(transaction, *which)
    await delete(transaction.session, [record.id for record in taken])
    return taken


async def unfit(transaction: Statements, before: Sequence[TunnelRecord]) -> list[TunnelRecord]:
    """The held tunnels that their gateway, resource and addresses describe otherwise by now."""
    if not before:
        return []
    by_id = {record.id: record for record in before}
    rows = await transaction.rows(_RECORDS, tunnel_ids=list(by_id))
    by_now = {record.id: record for row in rows if (record := _possible(*row)) is not None}
    return [was for was in by_id.values() if not was.is_like(by_now.get(was.id))]


def _possible(shown: str, sas: str, resource: str, gateway: str, inner: str) -> TunnelRecord | None:
    """None for one that its gateway cannot carry."""
    site = parse_gateway(gateway)
    if not parse_inner(inner).belongs(site.pool, site.pool6):
        return None
    try:
        return _record(shown, sas, resource, gateway, inner)
    except CulvertError:
        return None


async def remove(transaction: Statements, tunnel_id: uuid.UUID) -> None:
    """Remove a locked tunnel."""
    await transaction.run(_REMOVE, tunnel_id=tunnel_id)


async def forget_drained(session: AsyncSession, gateway_id: int) -> None:
    """SAs of a gateway whose drain nobody ended when it was time, and what they were the last of."""
    drained = SecurityAssociation.drain_until <= func.now() - ABANDONED
    of_it = SecurityAssociation.tunnel_id == Tunnel.id
    left = and_(Tunnel.state == TunnelState.LEAVING, ~exists().where(of_it))
    # As everywhere, a tunnel is locked before its SAs; whoever has one now sees to it.
    due = await session.scalars(
        select(Tunnel.id)
        .where(_OF_GATEWAY, or_(exists().where(of_it, drained), left))
        .with_for_update(skip_locked=True),
        {"gateway_id": gateway_id},
    )
    if ids := due.all():
        sas = SecurityAssociation.tunnel_id.in_(ids)
        await session.execute(sql_delete(SecurityAssociation).where(sas, drained))
        await session.execute(sql_delete(Tunnel).where(Tunnel.id.in_(ids), left))


@dataclass(frozen=True, slots=True)
class Portion:
    """A page of the tunnels that a gateway should carry. The next page begins after `last`."""

    last: Endpoint
    _rows: Sequence[tuple[Any, ...]]
    _shapes: Mapping[int, tuple[str, str]]

    def records(self) -> list[TunnelRecord]:
        """Without those whose resource was gone, with them, before it was read."""
        return [
            _record(shown, sas, *self._shapes[resource], inner)
            for _, resource, shown, sas, inner in self._rows
            if resource in self._shapes
        ]


async def on_gateway(session: AsyncSession, gateway_id: int, after: Endpoint | None = None) -> Portion | None:
    """None after the last one."""
    statements = InSession(session)
    rows = await statements.rows(
        _TUNNELS_OF_GATEWAY, gateway_id=gateway_id, after=_BEFORE_ALL if after is None else after
    )
    if not rows:
        return None
    resources = sorted({resource for _, resource, *_ in rows})
    shared = await statements.rows(_SHAPES_OF_GATEWAY, gateway_id=gateway_id, resource_ids=resources)
    return Portion(rows[-1][0], rows, {number: (resource, gateway) for number, resource, gateway in shared})


async def tunnel_of_sa(session: AsyncSession, gateway_id: int, sa_id: int) -> uuid.UUID | None:
    return await session.scalar(
        select(SecurityAssociation.tunnel_id).where(
            SecurityAssociation.gateway_id == gateway_id, SecurityAssociation.sa_id == sa_id
        )
    )


async def by_sa(session: AsyncSession, gateway_id: int, sa_id: int) -> TunnelRecord | None:
    tunnel_id = await tunnel_of_sa(session, gateway_id, sa_id)
    row = await InSession(session).row(_RECORD_OF_TUNNEL, tunnel_id=tunnel_id) if tunnel_id else None
    return _record(*row) if row else None
