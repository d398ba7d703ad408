"""SQL about tunnels, but for what an OpenTunnel or a renewal waits for (hot_queries.py)."""

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
from culvert_proto import CulvertError, Reason
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
    exists,
    false,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy import (
    delete as sql_delete,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, contains_eager

from culvert_service.decision.facts import POLICIES, VERSION
from culvert_service.gateways.sa import Endpoint
from culvert_service.gateways.tunnel_entries import Pair
from culvert_service.rest.page import Cut
from culvert_service.tunnels.hot_queries import GATEWAY, RECORD, RECORD_OF_TUNNEL, SAS_OF_TUNNEL
from culvert_service.tunnels.pool import Inner
from culvert_service.tunnels.record import TunnelRecord, parse_gateway, parse_inner, parse_texts
from culvert_service.tunnels.silence import Carried

# A drain's controller ends it within this time, unless that controller died.
ABANDONED = timedelta(seconds=1)
# The number of rows read of a gateway at a time; endpoints are not negative.
_PORTION = 1000
_BEFORE_ALL = -1
_RECORDS = Statement(RECORD.where(Tunnel.id == func.any(bindparam("tunnel_ids", type_=ARRAY(Uuid)))))
# Their gateway, and resources that many of them share, are not repeated for each.
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
SET spi = new.spi, generation = new.generation, tag = new.tag, made_at = now(), drain_until = NULL
FROM unnest(CAST(:ids AS uuid[]), CAST(:directions AS text[]), CAST(:spis AS bigint[]),
            CAST(:generations AS int[]), CAST(:tags AS bigint[])) AS new (id, direction, spi, generation, tag)
WHERE sa.tunnel_id = new.id AND sa.direction = new.direction
""")
_ADVANCE = text("""
UPDATE tunnels SET generation = new.generation, state = 'up'
FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[])) AS new (id, generation) WHERE tunnels.id = new.id
""")


async def held(transaction: InSession, *which: ColumnElement[bool]) -> list[TunnelRecord]:
    """The tunnels that match, to themselves until this transaction ends."""
    found = await transaction.session.scalars(
        select(Tunnel.id).where(*which).order_by(Tunnel.id).with_for_update()
    )
    ids = found.all()
    rows = await transaction.rows(_RECORDS, tunnel_ids=ids) if ids else []
    return [parse_texts(*row) for row in rows]


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
        return parse_texts(shown, sas, resource, gateway, inner)
    except CulvertError:
        return None


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
            parse_texts(shown, sas, *self._shapes[resource], inner)
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
    row = await InSession(session).row(RECORD_OF_TUNNEL, tunnel_id=tunnel_id) if tunnel_id else None
    return parse_texts(*row) if row else None


async def lock(session: AsyncSession, tunnels: Sequence[tuple[uuid.UUID, int]]) -> set[uuid.UUID]:
    """Lock the tunnels that are still at that generation, until the transaction ends; gives those."""
    asked = {"ids": [number for number, _ in tunnels], "generations": [current for _, current in tunnels]}
    return set(await session.scalars(_LOCK_ALL, asked))


async def renumber(session: AsyncSession, tunnels: Sequence[tuple[uuid.UUID, Pair]]) -> None:
    """Their one pair is this one. Raises IntegrityError when an SPI is taken."""
    await session.execute(_FORGET_OTHERS, {"ids": [number for number, _ in tunnels]})
    sas = [
        (number, direction, sa.spi, pair.generation, pair.tag)
        for number, pair in tunnels
        for direction, sa in (
            (Direction.TO_GATEWAY, pair.to_gateway),
            (Direction.TO_DEVICE, pair.to_device),
        )
    ]
    names = ("ids", "directions", "spis", "generations", "tags")
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


@dataclass(frozen=True, slots=True)
class Listed:
    """A tunnel for the admin's list."""

    tunnel: Tunnel
    device: str
    user: str
    resource: Resource
    gateway: str
    suite: str
    inner_address: str
    inner_address6: str | None


async def listed(session: AsyncSession, cut: Cut) -> list[Listed]:
    query = cut.of(_listing(), Tunnel.opened_at, Tunnel.id)
    return [Listed(*row) for row in await session.execute(query)]


async def listed_by_id(session: AsyncSession, ids: Sequence[uuid.UUID]) -> list[Listed]:
    return [Listed(*row) for row in await session.execute(_listing().where(Tunnel.id.in_(ids)))]


def _listing() -> Select[Tunnel, str, str, Resource, str, str, str, str | None]:
    suite = func.coalesce(Resource.suite, Gateway.suite)
    return (
        select(
            Tunnel, Device.name, User.name, Resource, Gateway.name, suite, Address.address, Address.address6
        )
        .join(Device, Device.id == Tunnel.device_id)
        .join(User, User.id == Device.user_id)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .join(Address, and_(Address.gateway_id == Tunnel.gateway_id, Address.device_id == Tunnel.device_id))
        .where(Tunnel.stays())
    )


async def delete_addresses_outside(session: AsyncSession, gateway: Gateway) -> None:
    """Delete addresses outside of the pool, of devices without a tunnel there."""
    found = await session.execute(
        select(Address.device_id, Address.address, Address.address6).where(Address.gateway_id == gateway.id)
    )
    outside = [row[0] for row in found if not Inner(row[1], row[2]).belongs(gateway.pool, gateway.pool6)]
    await session.execute(
        sql_delete(Address).where(Address.gateway_id == gateway.id, Address.device_id.in_(outside))
    )


@dataclass(frozen=True, slots=True)
class Due:
    """A tunnel that has to be decided about anew, with what the decision needs."""

    id: uuid.UUID
    generation: int
    peer_address: str
    old_version: int
    old_until: datetime.datetime
    gateway: str
    served: bool
    device: Device
    resource: Resource
    policies: str | None
    version: int

    def as_it_was(self) -> ColumnElement[bool]:
        """Not one that was opened anew, or has moved again, since."""
        return and_(
            Tunnel.id == self.id,
            Tunnel.generation == self.generation,
            Tunnel.peer_address == self.peer_address,
            Tunnel.policy_version == self.old_version,
        )


async def due(session: AsyncSession, now: datetime.datetime, limit: int | None) -> list[Due]:
    """None: all of them."""
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


async def permit(session: AsyncSession, permitted: Sequence[tuple[Due, datetime.datetime]]) -> None:
    """Until when. What has changed in the meantime stays due."""
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


async def policy_version(session: AsyncSession) -> int:
    return await session.scalar(select(VERSION)) or 0


@dataclass(frozen=True, slots=True)
class Stranded:
    """A tunnel that another gateway is to carry. `works`: the one that carries it does still."""

    id: uuid.UUID
    device_id: uuid.UUID
    fqdn: str
    gateway: str
    why: Reason

    @property
    def works(self) -> bool:
        return self.why is not Reason.GATEWAY_DOWN


async def stranded(
    session: AsyncSession, gone: Collection[str], drains: Collection[str], usable: Collection[str]
) -> list[Stranded]:
    """Tunnels at gateways that are `gone` or drain, and those led away, to what one that is `usable` serves as well."""
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
        # A tunnel at a gateway that works moves only to gateways that are tried before it.
        .where(or_(leaving, its_place.is_(None), ResourceGateway.position < its_place))
    )
    query = (
        select(Tunnel.id, Tunnel.device_id, Resource.fqdn, Gateway.name)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .where(or_(Tunnel.led_away, leaving), served, Tunnel.stays())
        .order_by(Tunnel.opened_at)
    )

    def why(gateway: str) -> Reason:
        if gateway in gone:
            return Reason.GATEWAY_DOWN
        return Reason.GATEWAY_DRAINING if gateway in drains else Reason.GATEWAY_REPLACED

    found = await session.execute(query)
    return [Stranded(number, device, fqdn, at, why(at)) for number, device, fqdn, at in found]


async def carried(session: AsyncSession, gateway_id: int, sa_ids: Collection[int]) -> dict[int, Carried]:
    """The tunnels of those SAs that there are."""
    sa = SecurityAssociation
    query = (
        select(sa.sa_id, Tunnel.id, Tunnel.device_id, sa.generation, Resource.idle_seconds)
        .join(Tunnel, Tunnel.id == sa.tunnel_id)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .where(sa.gateway_id == gateway_id, sa.sa_id == any_(sql_cast(list(sa_ids), ARRAY(BigInteger))))
    )
    return {row[0]: Carried(*row[1:]) for row in await session.execute(query)}
