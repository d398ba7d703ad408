"""SQL about tunnels, their SAs and inner addresses."""

from __future__ import annotations

import asyncio
import datetime
import enum
import functools
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from culvert_db import (
    Address,
    Device,
    Direction,
    Gateway,
    Resource,
    ResourceGateway,
    SecurityAssociation,
    Statement,
    Tunnel,
    User,
    as_json,
    from_json,
)
from culvert_proto import CulvertError, Reason
from sqlalchemy import (
    ColumnElement,
    Interval,
    LargeBinary,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by, array, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import contains_eager, selectinload

from culvert_service.decision.facts import POLICIES, VERSION
from culvert_service.gateways.sa import ENDPOINTS, SLOTS, SaNumbers, Slot, Tag, draw
from culvert_service.gateways.tunnel_entries import Pair
from culvert_service.resources.name import candidates
from culvert_service.resources.repository import meant_by
from culvert_service.rest.page import Cut
from culvert_service.sessions.free_number import free_number
from culvert_service.sessions.pool import Inner, free_address
from culvert_service.sessions.record import TunnelRecord, parse

# What a click waits for names tables and is compiled once.
_TUNNELS = cast("Table", Tunnel.__table__)
_SAS = cast("Table", SecurityAssociation.__table__)


_INSERT_TUNNEL = Statement(
    insert(_TUNNELS)
    .values({column.name: bindparam(column.name) for column in _TUNNELS.c if column.server_default is None})
    .values(endpoint=free_number(_TUNNELS.c.endpoint, ENDPOINTS))
    .on_conflict_do_nothing()
    .returning(_TUNNELS.c.endpoint)
)


def _sa(direction: Direction) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: bindparam(name) for name in ("tunnel_id", "gateway_id", "device_id", "generation", "tag")
    }
    values |= {name: bindparam(f"{direction}_{name}") for name in ("spi", "sa_id")}
    values["direction"] = direction.value
    values["slot"] = free_number(_SAS.c.slot, SLOTS, lambda taken: taken.c.direction == direction.value)
    return values


_INSERT_SAS = Statement(
    insert(_SAS)
    .values([_sa(direction) for direction in Direction])
    .on_conflict_do_nothing()
    .returning(_SAS.c.id, _SAS.c.direction, _SAS.c.slot)
)
_DRAIN = Statement(
    update(_SAS)
    .where(_SAS.c.tunnel_id == bindparam("of_tunnel"), _SAS.c.generation == bindparam("of_generation"))
    .values(drain_until=func.now() + bindparam("after", type_=Interval))
)
_PERMIT = (
    update(_TUNNELS)
    .where(
        _TUNNELS.c.id == bindparam("was_id"),
        _TUNNELS.c.generation == bindparam("was_generation"),
        _TUNNELS.c.peer_address == bindparam("was_at"),
        _TUNNELS.c.policy_version == bindparam("was_version"),
    )
    .values(permitted_until=bindparam("permitted_until"), policy_version=bindparam("policy_version"))
)
_GATEWAY = as_json(Gateway, without="kek_ciphertext")
_IN_ORDER = ResourceGateway.position
_SERVING = (
    select(func.array_agg(aggregate_order_by(array([_GATEWAY, as_json(Address)]), _IN_ORDER)))
    .select_from(ResourceGateway)
    .join(Gateway, Gateway.id == ResourceGateway.gateway_id)
    .outerjoin(Address, and_(Address.gateway_id == Gateway.id, Address.device_id == Device.id))
    .where(ResourceGateway.resource_id == Resource.id)
    .correlate(Device, Resource)
    .scalar_subquery()
)
_LOCK = Statement(select(Tunnel.id).where(Tunnel.id == bindparam("tunnel_id")).with_for_update())
_SAS_OF_IT = (
    select(func.array_agg(as_json(SecurityAssociation)))
    .where(SecurityAssociation.tunnel_id == Tunnel.id)
    .correlate(Tunnel)
    .scalar_subquery()
)
_RECORD = (
    select(as_json(Tunnel), _SAS_OF_IT, as_json(Resource), _GATEWAY, as_json(Address))
    .join(Resource, Resource.id == Tunnel.resource_id)
    .join(Gateway, Gateway.id == Tunnel.gateway_id)
    .join(Address, and_(Address.gateway_id == Tunnel.gateway_id, Address.device_id == Tunnel.device_id))
)
_RECORD_OF_TUNNEL = Statement(_RECORD.where(Tunnel.id == bindparam("tunnel_id")))
_RECORDS_OF_GATEWAY = Statement(_RECORD.where(Tunnel.gateway_id == bindparam("gateway_id")))
_OPEN_FACTS = Statement(
    select(as_json(Device), User.name, as_json(Resource), POLICIES, VERSION, Tunnel.id, _SERVING)
    .join(User, User.id == Device.user_id)
    .outerjoin(Resource, Resource.id == meant_by(bindparam("names", type_=ARRAY(Text))))
    .outerjoin(Tunnel, and_(Tunnel.device_id == Device.id, Tunnel.resource_id == Resource.id))
    .where(Device.shows(bindparam("fingerprint", type_=LargeBinary)))
    .with_for_update(read=True, of=Device)
)

# Draws of random numbers, or of the lowest free address, before it is called a fault.
_TRIES = 16
# By how much further, for each address that was lost, the next is looked for.
_SPREAD = 16


@dataclass(frozen=True, slots=True)
class OpenFacts:
    """What the decision needs, and what is there already. `policies` is for decision.facts to parse."""

    device: Device | None
    resource: Resource | None = None
    policies: str | None = None
    version: int = 0
    tunnel_id: uuid.UUID | None = None
    serving: tuple[Serving, ...] = ()


class Inserted(enum.Enum):
    """How an insertion of a tunnel went. EXISTS: the device has one to this resource already."""

    DONE = enum.auto()
    EXISTS = enum.auto()
    NO_ENDPOINT = enum.auto()


@dataclass(frozen=True, slots=True)
class Serving:
    """A gateway of a resource, in order; `inner` is what the device has there."""

    gateway: Gateway
    inner: Inner | None


async def open_facts(session: AsyncSession, fingerprint: bytes, fqdn: str) -> OpenFacts:
    """Keeps a revocation of the device waiting until this transaction ends: it then finds the new tunnel."""
    row = await _OPEN_FACTS.row(session, fingerprint=fingerprint, names=candidates(fqdn))
    if row is None:
        return OpenFacts(None)
    shown, user, resource, policies, version, tunnel_id, serving = row
    device = from_json(Device, shown)
    device.user = User(name=user)
    return OpenFacts(
        device,
        _resource(resource) if resource else None,
        policies,
        version,
        tunnel_id,
        tuple(
            Serving(_gateway(gateway), _inner(inner) if inner else None) for gateway, inner in serving or ()
        ),
    )


# Many openings find few resources and gateways: most find them parsed. Nobody changes what is shared so.
@functools.lru_cache(maxsize=4096)
def _resource(shown: str) -> Resource:
    return from_json(Resource, shown)


def _inner(shown: str) -> Inner:
    found = from_json(Address, shown)
    return Inner(found.address, found.address6)


@functools.lru_cache(maxsize=256)
def _gateway(shown: str) -> Gateway:
    return from_json(Gateway, shown)


async def assign_address(session: AsyncSession, gateway: Gateway, device_id: uuid.UUID) -> Inner:
    """The device's addresses in the gateway's pools. Raises CulvertError POOL_EXHAUSTED."""
    for lost in range(_TRIES):
        rows = await session.execute(
            select(Address.device_id, Address.address, Address.address6).where(
                Address.gateway_id == gateway.id
            )
        )
        taken: dict[uuid.UUID, Inner] = {row[0]: Inner(row[1], row[2]) for row in rows}
        if mine := taken.get(device_id):
            return mine
        # Who has lost the lowest to somebody faster stays out of the way of all the others who have, too.
        skip = secrets.randbelow(_SPREAD * lost + 1)
        address = free_address(gateway.pool, [inner.address for inner in taken.values()], skip)
        used6 = [inner.address6 for inner in taken.values() if inner.address6]
        address6 = free_address(gateway.pool6, used6, skip) if gateway.pool6 else None
        if address is None or (gateway.pool6 and address6 is None):
            break
        values = {"gateway_id": gateway.id, "device_id": device_id, "address": address, "address6": address6}
        # Someone may have been faster: then look again.
        if await session.scalar(
            insert(Address).values(values).on_conflict_do_nothing().returning(Address.address)
        ):
            return Inner(address, address6)
    raise CulvertError(Reason.POOL_EXHAUSTED, gateway=gateway.name)


async def insert_tunnel(session: AsyncSession, tunnel: Tunnel) -> Inserted:
    """Gives the tunnel an endpoint that no other has on its gateway."""
    values = {
        "id": tunnel.id,
        "device_id": tunnel.device_id,
        "resource_id": tunnel.resource_id,
        "gateway_id": tunnel.gateway_id,
        "state": tunnel.state,
        "generation": tunnel.generation,
        "peer_address": tunnel.peer_address,
        "peer_port": tunnel.peer_port,
        "permitted_until": tunnel.permitted_until,
        "policy_version": tunnel.policy_version,
    }
    for _ in range(_TRIES):
        if inserted := await _INSERT_TUNNEL.row(session, **values):
            tunnel.endpoint = inserted[0]
            return Inserted.DONE
        there = select(Tunnel.id).where(
            Tunnel.device_id == tunnel.device_id, Tunnel.resource_id == tunnel.resource_id
        )
        if await session.scalar(there) is not None:
            return Inserted.EXISTS
    return Inserted.NO_ENDPOINT


async def insert_pair(
    session: AsyncSession,
    tunnel_id: uuid.UUID,
    device_id: uuid.UUID,
    gateway_id: int,
    generation: int,
    tag: Tag,
) -> Pair | None:
    """Two SAs with numbers that nobody else has; None when the gateway has none left."""
    for _ in range(_TRIES):
        drawn = {direction: draw() for direction in Direction}
        numbers = {f"{direction}_spi": one.spi for direction, one in drawn.items()}
        numbers |= {f"{direction}_sa_id": one.sa_id for direction, one in drawn.items()}
        inserted = await _INSERT_SAS.rows(
            session,
            tunnel_id=tunnel_id,
            gateway_id=gateway_id,
            device_id=device_id,
            generation=generation,
            tag=tag,
            **numbers,
        )
        if len(inserted) == len(drawn):
            slots = {Direction(direction): Slot(slot) for _, direction, slot in inserted}
            to_gateway, to_device = (
                SaNumbers(drawn[direction].spi, slots[direction], drawn[direction].sa_id)
                for direction in (Direction.TO_GATEWAY, Direction.TO_DEVICE)
            )
            return Pair(generation, to_gateway, to_device, tag)
        lost = [row[0] for row in inserted]
        await session.execute(delete(SecurityAssociation).where(SecurityAssociation.id.in_(lost)))
    return None


async def delete_generations(
    session: AsyncSession, tunnel_id: uuid.UUID, generations: frozenset[int]
) -> None:
    if generations:
        await session.execute(
            delete(SecurityAssociation).where(
                SecurityAssociation.tunnel_id == tunnel_id, SecurityAssociation.generation.in_(generations)
            )
        )


async def drain_generation(
    session: AsyncSession, tunnel_id: uuid.UUID, generation: int, after: datetime.timedelta
) -> None:
    await _DRAIN.run(session, of_tunnel=tunnel_id, of_generation=generation, after=after)


async def update_tunnel(session: AsyncSession, tunnel_id: uuid.UUID, **values: object) -> None:
    await _update(frozenset(values)).run(session, tunnel_id=tunnel_id, **values)


@functools.cache
def _update(columns: frozenset[str]) -> Statement:
    values: dict[str, Any] = {name: bindparam(name) for name in sorted(columns)}
    return Statement(update(_TUNNELS).where(_TUNNELS.c.id == bindparam("tunnel_id")).values(values))


async def locked(session: AsyncSession, tunnel_id: uuid.UUID) -> TunnelRecord | None:
    """The tunnel, to itself until this transaction ends."""
    # The lock comes first: rows that are joined to it are read only after whoever had it is through.
    if await _LOCK.row(session, tunnel_id=tunnel_id) is None:
        return None
    row = await _RECORD_OF_TUNNEL.row(session, tunnel_id=tunnel_id)
    return _record(*row) if row else None


def _record(shown: str, sas: Sequence[str], resource: str, gateway: str, inner: str) -> TunnelRecord:
    tunnel = from_json(Tunnel, shown)
    tunnel.sas = [from_json(SecurityAssociation, sa) for sa in sas]
    return parse(tunnel, _resource(resource), _gateway(gateway), _inner(inner))


async def take(session: AsyncSession, *which: ColumnElement[bool]) -> list[TunnelRecord]:
    """Deletes the tunnels that match, and returns what they were."""
    ids = (await session.scalars(select(Tunnel.id).where(*which).with_for_update())).all()
    found = await _records(session, Tunnel.id.in_(ids)) if ids else []
    await session.execute(delete(Tunnel).where(Tunnel.id.in_(ids)))
    return found


async def clock(session: AsyncSession) -> datetime.datetime:
    """The database's: what SAs' ages are told by. A controller's clock may jump."""
    return (await session.execute(select(func.now()))).scalar_one()


async def on_gateway(session: AsyncSession, gateway_id: int) -> list[TunnelRecord]:
    """The tunnels that a gateway should carry; SAs that have drained are forgotten."""
    await session.execute(
        delete(SecurityAssociation).where(
            SecurityAssociation.gateway_id == gateway_id, SecurityAssociation.drain_until <= func.now()
        )
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
    found = await _records(session, Tunnel.id == tunnel_id) if tunnel_id else []
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Due:
    """A tunnel that has to be decided about anew, with what the decision needs."""

    id: uuid.UUID
    generation: int
    peer_address: str
    old_version: int
    gateway: str
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


async def due(session: AsyncSession, now: datetime.datetime, limit: int) -> list[Due]:
    query = (
        select(
            Tunnel.id,
            Tunnel.generation,
            Tunnel.peer_address,
            Tunnel.policy_version,
            Gateway.name,
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
            "permitted_until": until,
            "policy_version": tunnel.version,
        }
        for tunnel, until in permitted
    ]
    await (await session.connection()).execute(_PERMIT, rows)


async def doubt_all(session: AsyncSession) -> None:
    await session.execute(update(Tunnel).values(policy_version=0))


async def policy_version(session: AsyncSession) -> int:
    return await session.scalar(select(VERSION)) or 0


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
        .join(Address, _same_address())
    )


async def _records(session: AsyncSession, *which: ColumnElement[bool]) -> list[TunnelRecord]:
    query: Select[Tunnel, Resource, Gateway, str, str | None] = (
        select(Tunnel, Resource, Gateway, Address.address, Address.address6)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .join(Address, _same_address())
        .options(selectinload(Tunnel.sas))
        .where(*which)
        .execution_options(populate_existing=True)
    )
    return [
        parse(tunnel, resource, gateway, Inner(address, address6))
        for tunnel, resource, gateway, address, address6 in await session.execute(query)
    ]


def _same_address() -> ColumnElement[bool]:
    return and_(Address.gateway_id == Tunnel.gateway_id, Address.device_id == Tunnel.device_id)
