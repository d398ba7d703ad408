"""SQL about tunnels, except the statements that OpenTunnel and renewals run (hot_queries.py)."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from culvert_db import (
    Address,
    Device,
    Direction,
    Gateway,
    InSession,
    Resource,
    ResourceGateway,
    SecurityAssociation,
    Statement,
    Statements,
    Tunnel,
    TunnelState,
    User,
    as_json,
    doubted,
)
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Table,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, contains_eager

from culvert_service.decision.repository import POLICIES, VERSION
from culvert_service.gateways.sa import Endpoint
from culvert_service.gateways.tunnel_entries import Pair
from culvert_service.rest.page import Cut
from culvert_service.tunnels.hot_queries import GATEWAY, RECORD, RECORD_OF_TUNNEL, SAS_OF_TUNNEL
from culvert_service.tunnels.pool import Inner
from culvert_service.tunnels.record import Due, Listed, Stranded, TunnelRecord, parse_possible, parse_texts
from culvert_service.tunnels.silence import Carried

# A condition on a tunnel; only this file builds conditions.
Which = ColumnElement[bool]
# A drain's controller ends it within this time, unless that controller died.
ABANDONED = timedelta(seconds=1)
# Rows read at a time from one gateway.
_PORTION = 1000
_BEFORE_ALL = -1
_RECORDS = Statement(RECORD.where(Tunnel.id == func.any(bindparam("tunnel_ids", type_=ARRAY(Uuid)))))
# Gateways and resources are read separately, because many tunnels share them.
_OF_GATEWAY = Tunnel.gateway_id == bindparam("gateway_id")
_TUNNELS_OF_GATEWAY = Statement(
    select(Tunnel.endpoint, Tunnel.resource_id, as_json(Tunnel), SAS_OF_TUNNEL, as_json(Address))
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
_TUNNELS = cast("Table", Tunnel.__table__)
_PERMIT = (
    update(_TUNNELS)
    .where(
        _TUNNELS.c.id == bindparam("was_id"),
        _TUNNELS.c.generation == bindparam("was_generation"),
        _TUNNELS.c.peer_address == bindparam("was_at"),
        _TUNNELS.c.policy_version == bindparam("was_version"),
        _TUNNELS.c.permitted_until == bindparam("was_until"),
    )
    .values(permitted_until=bindparam("permitted_until"), policy_version=bindparam("policy_version"))
)
# Whether its gateway still is one of its resource's.
_SERVED = exists().where(
    ResourceGateway.resource_id == Tunnel.resource_id, ResourceGateway.gateway_id == Tunnel.gateway_id
)
# Skips locked rows: another transaction opens, renews or closes that tunnel just now.
_LOCK_ALL = text("""
SELECT id FROM tunnels JOIN unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[])) AS was (id, generation)
USING (id, generation) FOR UPDATE OF tunnels SKIP LOCKED
""")
_FORGET_OTHERS = text("""
DELETE FROM security_associations AS sa USING tunnels
WHERE tunnels.id = sa.tunnel_id AND tunnels.id = ANY (CAST(:ids AS uuid[])) AND sa.generation <> tunnels.generation
""")
_RENUMBER = text("""
UPDATE security_associations AS sa
SET spi = new.spi, generation = new.generation, tag = new.tag, crypto_port = new.crypto_port, made_at = now(),
    drain_until = NULL
FROM unnest(CAST(:ids AS uuid[]), CAST(:directions AS text[]), CAST(:spis AS bigint[]), CAST(:generations AS int[]),
            CAST(:tags AS bigint[]), CAST(:crypto_ports AS int[]))
    AS new (id, direction, spi, generation, tag, crypto_port)
WHERE sa.tunnel_id = new.id AND sa.direction = new.direction
""")
_ADVANCE = text("""
UPDATE tunnels SET generation = new.generation, state = 'up'
FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[])) AS new (id, generation) WHERE tunnels.id = new.id
""")


def has_id(tunnel_id: uuid.UUID) -> Which:
    return Tunnel.id == tunnel_id


def is_of_devices(devices: Collection[uuid.UUID]) -> Which:
    return Tunnel.device_id.in_(devices)


def leads_to(resource_id: int) -> Which:
    return Tunnel.resource_id == resource_id


def is_at_gateway(gateway_id: int) -> Which:
    return Tunnel.gateway_id == gateway_id


def is_at_generation(tunnels: Collection[tuple[uuid.UUID, int]]) -> Which:
    """A tunnel that was opened anew in the meantime has another generation, and does not match."""
    return tuple_(Tunnel.id, Tunnel.generation).in_(tunnels)


def is_as_decided(tunnels: Sequence[Due]) -> Which:
    """Unchanged since the decision: neither opened again nor moved."""
    return or_(
        *(
            and_(
                Tunnel.id == it.id,
                Tunnel.generation == it.generation,
                Tunnel.peer_address == it.peer_address,
                Tunnel.policy_version == it.old_version,
            )
            for it in tunnels
        )
    )


def uses_sas(gateway_id: int, sa_ids: Collection[int]) -> Which:
    """Its current generation uses one of these SAs of the gateway."""
    sa = SecurityAssociation
    of_it = (sa.tunnel_id == Tunnel.id, sa.generation == Tunnel.generation)
    return exists().where(*of_it, sa.gateway_id == gateway_id, sa.sa_id.in_(sa_ids))


async def lock_all(transaction: InSession, which: Which) -> list[TunnelRecord]:
    """Lock the tunnels that match until this transaction ends, and return them."""
    found = await transaction.session.scalars(
        select(Tunnel.id).where(which).order_by(Tunnel.id).with_for_update()
    )
    ids = found.all()
    rows = await transaction.rows(_RECORDS, tunnel_ids=ids) if ids else []
    return [parse_texts(*row) for row in rows]


async def delete_tunnels(session: AsyncSession, ids: Sequence[uuid.UUID]) -> None:
    await session.execute(delete(Tunnel).where(Tunnel.id.in_(ids)))


async def take(transaction: InSession, which: Which) -> list[TunnelRecord]:
    """Delete the tunnels that match, and return them."""
    taken = await lock_all(transaction, which)
    await delete_tunnels(transaction.session, [record.id for record in taken])
    return taken


async def read_possible(transaction: Statements, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, TunnelRecord]:
    """The tunnels as they are now, without those that their gateway cannot carry."""
    rows = await transaction.rows(_RECORDS, tunnel_ids=list(ids)) if ids else []
    return {record.id: record for row in rows if (record := parse_possible(*row)) is not None}


async def forget_drained(session: AsyncSession, gateway_id: int) -> None:
    """Delete a gateway's SAs whose drain has been over for ABANDONED, and leaving tunnels without SAs."""
    drained = SecurityAssociation.drain_until <= func.now() - ABANDONED
    of_it = SecurityAssociation.tunnel_id == Tunnel.id
    left = and_(Tunnel.state == TunnelState.LEAVING, ~exists().where(of_it))
    # As everywhere, a tunnel is locked before its SAs. Locked tunnels are skipped: their transaction handles them.
    due = await session.scalars(
        select(Tunnel.id)
        .where(_OF_GATEWAY, or_(exists().where(of_it, drained), left))
        .with_for_update(skip_locked=True),
        {"gateway_id": gateway_id},
    )
    if ids := due.all():
        sas = SecurityAssociation.tunnel_id.in_(ids)
        await session.execute(delete(SecurityAssociation).where(sas, drained))
        await session.execute(delete(Tunnel).where(Tunnel.id.in_(ids), left))


@dataclass(frozen=True, slots=True)
class Portion:
    """A page of the tunnels that a gateway should carry. The next page begins after `last`."""

    last: Endpoint
    _rows: Sequence[tuple[Any, ...]]
    _shapes: Mapping[int, tuple[str, str]]

    def records(self) -> list[TunnelRecord]:
        """The records, except tunnels that were deleted with their resource before the resource was read."""
        return [
            parse_texts(shown, sas, *self._shapes[resource], inner)
            for _, resource, shown, sas, inner in self._rows
            if resource in self._shapes
        ]


async def read_portion(
    session: AsyncSession, gateway_id: int, after: Endpoint | None = None
) -> Portion | None:
    """The tunnels after this endpoint; None after the last page."""
    statements = InSession(session)
    rows = await statements.rows(
        _TUNNELS_OF_GATEWAY, gateway_id=gateway_id, after=_BEFORE_ALL if after is None else after
    )
    if not rows:
        return None
    resources = sorted({resource for _, resource, *_ in rows})
    shared = await statements.rows(_SHAPES_OF_GATEWAY, gateway_id=gateway_id, resource_ids=resources)
    return Portion(rows[-1][0], rows, {number: (resource, gateway) for number, resource, gateway in shared})


async def find_id_by_sa(session: AsyncSession, gateway_id: int, sa_id: int) -> uuid.UUID | None:
    return await session.scalar(
        select(SecurityAssociation.tunnel_id).where(
            SecurityAssociation.gateway_id == gateway_id, SecurityAssociation.sa_id == sa_id
        )
    )


async def find_by_sa(session: AsyncSession, gateway_id: int, sa_id: int) -> TunnelRecord | None:
    tunnel_id = await find_id_by_sa(session, gateway_id, sa_id)
    row = await InSession(session).row(RECORD_OF_TUNNEL, tunnel_id=tunnel_id) if tunnel_id else None
    return parse_texts(*row) if row else None


async def lock_idle(session: AsyncSession, tunnels: Sequence[tuple[uuid.UUID, int]]) -> set[uuid.UUID]:
    """Lock the tunnels that are still at that generation until the transaction ends. Returns their ids."""
    asked = {"ids": [number for number, _ in tunnels], "generations": [current for _, current in tunnels]}
    return set(await session.scalars(_LOCK_ALL, asked))


async def renumber(session: AsyncSession, tunnels: Sequence[tuple[uuid.UUID, Pair]]) -> None:
    """Replace all pairs of each tunnel by the given one. Raises IntegrityError when an SPI is taken."""
    await session.execute(_FORGET_OTHERS, {"ids": [number for number, _ in tunnels]})
    sas = [
        (number, direction, sa.spi, pair.generation, pair.tag, pair.crypto_port)
        for number, pair in tunnels
        for direction, sa in (
            (Direction.TO_GATEWAY, pair.to_gateway),
            (Direction.TO_DEVICE, pair.to_device),
        )
    ]
    names = ("ids", "directions", "spis", "generations", "tags", "crypto_ports")
    await session.execute(
        _RENUMBER, {name: list(column) for name, column in zip(names, zip(*sas, strict=True), strict=True)}
    )
    await session.execute(
        _ADVANCE,
        {
            "ids": [number for number, _ in tunnels],
            "generations": [pair.generation for _, pair in tunnels],
        },
    )


async def list_page(session: AsyncSession, cut: Cut) -> list[Listed]:
    query = cut.of(_select_listed(), Tunnel.opened_at, Tunnel.id)
    return [Listed(*row) for row in await session.execute(query)]


async def list_by_id(session: AsyncSession, ids: Sequence[uuid.UUID]) -> list[Listed]:
    return [Listed(*row) for row in await session.execute(_select_listed().where(Tunnel.id.in_(ids)))]


def _select_listed() -> Select[Tunnel, str, str, str | None, Resource, str, str, str, str | None]:
    suite = func.coalesce(Resource.suite, Gateway.suite)
    return (
        select(
            Tunnel,
            Device.name,
            User.name,
            User.display_name,
            Resource,
            Gateway.name,
            suite,
            Address.address,
            Address.address6,
        )
        .join(Device, Device.id == Tunnel.device_id)
        .join(User, User.id == Device.user_id)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .join(Address, and_(Address.gateway_id == Tunnel.gateway_id, Address.device_id == Tunnel.device_id))
        .where(Tunnel.stays())
    )


async def list_weights(session: AsyncSession, resource_id: int) -> list[tuple[int, int | None]]:
    """The ids of a resource's gateways, in their order, with their weights."""
    query = select(ResourceGateway.gateway_id, ResourceGateway.weight)
    query = query.where(ResourceGateway.resource_id == resource_id).order_by(ResourceGateway.position)
    return [(gateway_id, weight) for gateway_id, weight in await session.execute(query)]


async def list_serving(
    session: AsyncSession, resource_ids: Collection[int]
) -> list[tuple[int, str, int | None]]:
    """Each of the resources with each of its gateways, in their order: id, gateway's name, weight."""
    query = (
        select(ResourceGateway.resource_id, Gateway.name, ResourceGateway.weight)
        .join(Gateway, Gateway.id == ResourceGateway.gateway_id)
        .where(ResourceGateway.resource_id == any_(sql_cast(list(resource_ids), ARRAY(Integer))))
        .order_by(ResourceGateway.resource_id, ResourceGateway.position)
    )
    return [(resource_id, name, weight) for resource_id, name, weight in await session.execute(query)]


async def lead_away(
    session: AsyncSession,
    resource_id: int,
    gateways: Collection[int],
    behind: Collection[int],
    by: datetime.datetime,
) -> None:
    """Mark a resource's tunnels at gateways in `behind`. Also mark those at none of its `gateways`: these end at `by`."""
    left = Tunnel.gateway_id.not_in(gateways)
    end = func.least(Tunnel.permitted_until, by)
    await session.execute(
        update(Tunnel)
        .where(Tunnel.resource_id == resource_id, Tunnel.stays())
        .where(or_(left, Tunnel.gateway_id.in_(behind)))
        .values(led_away=True, permitted_until=case((left, end), else_=Tunnel.permitted_until))
        .execution_options(synchronize_session=False)
    )


async def lock_gateways(session: AsyncSession, names: Collection[str]) -> Sequence[Gateway]:
    """Lock the gateways in the order of their ids. Their pools do not change until this transaction ends."""
    query = select(Gateway).where(Gateway.name.in_(names)).order_by(Gateway.id)
    return (await session.scalars(query.with_for_update(read=True))).all()


async def delete_addresses_outside(session: AsyncSession, gateway: Gateway) -> None:
    """Delete addresses outside of the pool, of devices without a tunnel there."""
    found = await session.execute(
        select(Address.device_id, Address.address, Address.address6).where(Address.gateway_id == gateway.id)
    )
    outside = [row[0] for row in found if not Inner(row[1], row[2]).belongs(gateway.pool, gateway.pool6)]
    await session.execute(
        delete(Address).where(Address.gateway_id == gateway.id, Address.device_id.in_(outside))
    )


async def list_due(session: AsyncSession, now: datetime.datetime, limit: int | None) -> list[Due]:
    """Tunnels that need a new decision; `limit` None: all."""
    query = (
        select(
            Tunnel.id,
            Tunnel.generation,
            Tunnel.peer_address,
            Tunnel.policy_version,
            Tunnel.permitted_until,
            Gateway.name,
            _SERVED,
            Device,
            Resource,
            POLICIES,
            VERSION,
        )
        .join(Device, Device.id == Tunnel.device_id)
        .join(Device.user)
        .options(contains_eager(Device.user))
        .join(Resource, Resource.id == Tunnel.resource_id)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .where(or_(Tunnel.permitted_until <= now, Tunnel.policy_version != VERSION))
        .limit(limit)
    )
    return [Due(*row) for row in await session.execute(query)]


async def list_open(session: AsyncSession) -> Sequence[uuid.UUID]:
    return (await session.scalars(select(Tunnel.id))).all()


async def count_open(session: AsyncSession, among: Sequence[uuid.UUID]) -> int:
    query = select(func.count()).select_from(Tunnel).where(Tunnel.id == any_(sql_cast(among, ARRAY(Uuid))))
    return await session.scalar(query) or 0


async def permit(session: AsyncSession, permitted: Sequence[tuple[Due, datetime.datetime]]) -> None:
    """Set until when each tunnel is permitted. Tunnels that changed since they were read stay due."""
    rows = [
        {
            "was_id": tunnel.id,
            "was_generation": tunnel.generation,
            "was_at": tunnel.peer_address,
            "was_version": tunnel.old_version,
            "was_until": tunnel.old_until,
            "permitted_until": until,
            "policy_version": tunnel.version,
        }
        for tunnel, until in permitted
    ]
    await (await session.connection()).execute(_PERMIT, rows)


async def doubt_all(session: AsyncSession) -> None:
    await session.execute(update(Tunnel).values(policy_version=doubted()))


async def read_policy_version(session: AsyncSession) -> int:
    return await session.scalar(select(VERSION)) or 0


async def list_stranded(
    session: AsyncSession, gone: Collection[str], drains: Collection[str], usable: Collection[str]
) -> list[Stranded]:
    """Tunnels at gateways that are gone or drain, and marked tunnels, whose resource a usable gateway serves too."""
    leaves = (*gone, *drains)
    mine, other = aliased(ResourceGateway), aliased(Gateway)
    its_place = (
        select(mine.position)
        .where(mine.resource_id == Tunnel.resource_id, mine.gateway_id == Tunnel.gateway_id)
        .correlate(Tunnel)
        .scalar_subquery()
    )
    leaving = Gateway.name.in_(leaves) if leaves else false()
    served = (
        exists()
        .where(ResourceGateway.resource_id == Tunnel.resource_id, ResourceGateway.gateway_id == other.id)
        .where(other.name.in_(usable))
        # A tunnel at a working gateway moves only to gateways before it in the order.
        .where(or_(leaving, its_place.is_(None), ResourceGateway.position < its_place))
    )
    query = (
        select(Tunnel.id, Tunnel.device_id, Resource.fqdn, Gateway.name)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .where(or_(Tunnel.led_away, leaving), served, Tunnel.stays())
        .order_by(Tunnel.opened_at)
    )

    return [Stranded(*row) for row in await session.execute(query)]


async def find_carried(session: AsyncSession, gateway_id: int, sa_ids: Collection[int]) -> dict[int, Carried]:
    """The tunnels by SA; SAs without a tunnel are left out."""
    sa = SecurityAssociation
    query = (
        select(sa.sa_id, Tunnel.id, Tunnel.device_id, sa.generation, Resource.idle_seconds)
        .join(Tunnel, Tunnel.id == sa.tunnel_id)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .where(sa.gateway_id == gateway_id, sa.sa_id == any_(sql_cast(list(sa_ids), ARRAY(BigInteger))))
    )
    return {row[0]: Carried(*row[1:]) for row in await session.execute(query)}
