"""SQL that runs on each OpenTunnel and each renewal: statements that are compiled once, on the driver's own connection."""

from __future__ import annotations

import datetime
import enum
import functools
import uuid
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
    Statements,
    Tunnel,
    TunnelState,
    User,
    as_json,
    from_json,
)
from culvert_proto.contract import ENDPOINTS
from culvert_proto.dns_name import candidates
from sqlalchemy import (
    BigInteger,
    Integer,
    Interval,
    LargeBinary,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by, array, insert
from sqlalchemy.orm import aliased

from culvert_service.decision.repository import POLICIES, VERSION
from culvert_service.gateways.free_numbers import draw_free_number, insert_sas
from culvert_service.gateways.sa import SaNumbers, Slot, Tag, draw
from culvert_service.gateways.tunnel_entries import Pair
from culvert_service.resources.repository import select_matching
from culvert_service.tunnels.pool import Inner
from culvert_service.tunnels.record import (
    TunnelRecord,
    parse_gateway,
    parse_inner,
    parse_resource,
    parse_texts,
)

# Plain tables, because statements on a click's critical path are compiled once, without the mapper.
_TUNNELS = cast("Table", Tunnel.__table__)
_SAS = cast("Table", SecurityAssociation.__table__)
_ADDRESSES = cast("Table", Address.__table__)
_DEVICES = cast("Table", Device.__table__)
_RESOURCES = cast("Table", Resource.__table__)
_GATEWAYS = cast("Table", Gateway.__table__)
GATEWAY = as_json(Gateway, without=("kek_ciphertext", "next_kek_ciphertext"))
_IN_ORDER = ResourceGateway.position
_WEIGHT = sql_cast(ResourceGateway.weight, Text)
_SERVING = (
    select(func.array_agg(aggregate_order_by(array([GATEWAY, as_json(Address), _WEIGHT]), _IN_ORDER)))
    .select_from(ResourceGateway)
    .join(Gateway, Gateway.id == ResourceGateway.gateway_id)
    .outerjoin(Address, and_(Address.gateway_id == Gateway.id, Address.device_id == Device.id))
    .where(ResourceGateway.resource_id == Resource.id)
    .correlate(Device, Resource)
    .scalar_subquery()
)
_OPEN_FACTS = Statement(
    select(as_json(Device), User.name, as_json(Resource), POLICIES, VERSION, Tunnel.id, _SERVING)
    .join(User, User.id == Device.user_id)
    .outerjoin(Resource, Resource.id == select_matching(bindparam("names", type_=ARRAY(Text))))
    .outerjoin(Tunnel, and_(Tunnel.device_id == Device.id, Tunnel.resource_id == Resource.id, Tunnel.stays()))
    .where(Device.shows(bindparam("fingerprint", type_=LargeBinary)))
    .with_for_update(read=True, of=Device)
)
_LOCK = Statement(select(Tunnel.id).where(Tunnel.id == bindparam("tunnel_id")).with_for_update())
_REMOVE = Statement(delete(_TUNNELS).where(Tunnel.id == bindparam("tunnel_id")))
SAS_OF_TUNNEL = (
    select(sql_cast(func.jsonb_agg(func.to_jsonb(_SAS.table_valued())), Text))
    .where(SecurityAssociation.tunnel_id == Tunnel.id)
    .correlate(Tunnel)
    .scalar_subquery()
)
RECORD = (
    select(as_json(Tunnel), SAS_OF_TUNNEL, as_json(Resource), GATEWAY, as_json(Address))
    .join(Resource, Resource.id == Tunnel.resource_id)
    .join(Gateway, Gateway.id == Tunnel.gateway_id)
    .join(Address, and_(Address.gateway_id == Tunnel.gateway_id, Address.device_id == Tunnel.device_id))
)
_EARLIER = aliased(Tunnel, name="earlier")
_OWNED = Statement(
    RECORD.add_columns(
        as_json(Device),
        User.name,
        # True if no other transaction changed the row while this statement waited for its lock.
        sql_cast(literal_column("tunnels.xmin"), Text)
        == select(sql_cast(literal_column("earlier.xmin"), Text))
        .where(_EARLIER.id == Tunnel.id)
        .correlate(Tunnel)
        .scalar_subquery(),
    )
    .join(Device, Device.id == Tunnel.device_id)
    .join(User, User.id == Device.user_id)
    .where(Tunnel.id == bindparam("tunnel_id"), Device.shows(bindparam("fingerprint", type_=LargeBinary)))
    # A revocation locks in the same order.
    .suffix_with("FOR SHARE OF devices FOR UPDATE OF tunnels")
)
RECORD_OF_TUNNEL = Statement(RECORD.where(Tunnel.id == bindparam("tunnel_id")))
_GIVEN = [column for column in _TUNNELS.c if column.server_default is None and column.name != "endpoint"]
# The resource and the gateway in the versions that were read: no row if a concurrent change made a new version.
_DESCRIBED = (
    select(_RESOURCES.c.id)
    .select_from(_RESOURCES.join(_GATEWAYS, true()))
    .where(_RESOURCES.c.id == bindparam("resource_id"), _RESOURCES.c.version == bindparam("resource_version"))
    .where(_GATEWAYS.c.id == bindparam("gateway_id"), _GATEWAYS.c.version == bindparam("gateway_version"))
    .with_for_update(read=True)
    .cte("described")
)
_INSERT_TUNNEL = Statement(
    insert(_TUNNELS)
    .from_select(
        [*(column.name for column in _GIVEN), "endpoint"],
        select(
            *(bindparam(column.name, type_=column.type) for column in _GIVEN),
            draw_free_number(_TUNNELS.c.endpoint, ENDPOINTS),
        ).select_from(_DESCRIBED),
    )
    .on_conflict_do_nothing()
    .returning(_TUNNELS.c.endpoint)
)
_VERSIONS = Statement(
    select(_RESOURCES.c.version, _GATEWAYS.c.version).where(
        _RESOURCES.c.id == bindparam("resource_id"), _GATEWAYS.c.id == bindparam("gateway_id")
    )
)
_INSERTED_SAS = insert_sas("tunnel_id", "device_id")
_INSERT_SAS = Statement(_INSERTED_SAS)
_INSERT_RENEWED = Statement(
    _INSERTED_SAS.add_cte(
        update(_TUNNELS)
        .where(_TUNNELS.c.id == bindparam("tunnel_id"))
        .values(state=TunnelState.RENEWING.value)
        .returning(_TUNNELS.c.id)
        .cte("renewing")
    )
)
_TAKE_BACK = Statement(delete(_SAS).where(_SAS.c.id == func.any(bindparam("ids", type_=ARRAY(BigInteger)))))
_FORGET = Statement(
    delete(_SAS).where(
        _SAS.c.tunnel_id == bindparam("of_tunnel"),
        _SAS.c.generation == func.any(bindparam("generations", type_=ARRAY(Integer))),
    )
)
_THERE = Statement(
    select(_TUNNELS.c.id).where(
        _TUNNELS.c.device_id == bindparam("of_device"),
        _TUNNELS.c.resource_id == bindparam("to_resource"),
        Tunnel.stays(),
    )
)
_PAIR = (_ADDRESSES.c.address, _ADDRESSES.c.address6)
_AT_GATEWAY = _ADDRESSES.c.gateway_id == bindparam("at_gateway")
_MINE = _ADDRESSES.c.device_id == bindparam("of_device")
# For each family: the device's address, and the highest address that is taken.
_STANDING = Statement(
    select(
        *(select(column).where(_AT_GATEWAY, _MINE).scalar_subquery() for column in _PAIR),
        *(
            select(column)
            .where(_AT_GATEWAY, column.is_not(None))
            .order_by(column.desc())
            .limit(1)
            .scalar_subquery()
            for column in _PAIR
        ),
    )
)
_TAKEN = Statement(select(*_PAIR).where(_AT_GATEWAY))
_RELEASE = Statement(
    delete(_ADDRESSES).where(
        _ADDRESSES.c.gateway_id == bindparam("at_gateway"),
        exists().where(_DEVICES.c.id == _ADDRESSES.c.device_id, _DEVICES.c.revoked_at.is_not(None)),
        ~exists().where(
            _TUNNELS.c.gateway_id == _ADDRESSES.c.gateway_id,
            _TUNNELS.c.device_id == _ADDRESSES.c.device_id,
        ),
    )
)
_ASSIGN = Statement(
    insert(_ADDRESSES)
    .values({column.name: bindparam(column.name) for column in _ADDRESSES.c})
    .on_conflict_do_nothing()
    .returning(_ADDRESSES.c.address)
)
_DRAIN = Statement(
    update(_SAS)
    .where(_SAS.c.tunnel_id == bindparam("of_tunnel"), _SAS.c.generation == bindparam("of_generation"))
    .values(drain_until=func.now() + bindparam("after", type_=Interval))
)
_LEAVE = Statement(
    update(_TUNNELS).where(_TUNNELS.c.id == bindparam("tunnel_id")).values(state=TunnelState.LEAVING.value)
)
_DRAIN_ALL = Statement(
    update(_SAS)
    .where(_SAS.c.tunnel_id == bindparam("of_tunnel"), _SAS.c.drain_until.is_(None))
    .values(drain_until=func.now() + bindparam("after", type_=Interval))
)
# Draws of random numbers before an error is reported.
_TRIES = 16


@dataclass(frozen=True, slots=True)
class ServingGateway:
    """A gateway of a resource; `inner`: the device's inner addresses there."""

    gateway: Gateway
    inner: Inner | None
    weight: int | None


@dataclass(frozen=True, slots=True)
class OpenFacts:
    """The facts for the decision, and the present tunnel. `policies` is for decision.facts to parse."""

    device: Device | None
    resource: Resource | None = None
    policies: str | None = None
    version: int = 0
    tunnel_id: uuid.UUID | None = None
    serving: tuple[ServingGateway, ...] = ()


async def read_open_facts(transaction: Statements, fingerprint: bytes, fqdn: str) -> OpenFacts:
    """Read and lock the device, so that a revocation waits until this transaction ends and then finds the new tunnel."""
    row = await transaction.row(_OPEN_FACTS, fingerprint=fingerprint, names=candidates(fqdn))
    if row is None:
        return OpenFacts(None)
    shown, user, resource, policies, version, tunnel_id, serving = row
    device = from_json(Device, shown)
    device.user = User(name=user)
    return OpenFacts(
        device,
        parse_resource(resource) if resource else None,
        policies,
        version,
        tunnel_id,
        tuple(
            ServingGateway(parse_gateway(gateway), inner and parse_inner(inner), weight and int(weight))
            for gateway, inner, weight in serving or ()
        ),
    )


async def lock(transaction: Statements, tunnel_id: uuid.UUID) -> TunnelRecord | None:
    """Lock the tunnel until this transaction ends, and return it."""
    # Lock first, so that the joined rows are read after the previous lock holder has committed.
    if await transaction.row(_LOCK, tunnel_id=tunnel_id) is None:
        return None
    row = await transaction.row(RECORD_OF_TUNNEL, tunnel_id=tunnel_id)
    return parse_texts(*row) if row else None


async def lock_owned(
    transaction: Statements, fingerprint: bytes, tunnel_id: uuid.UUID
) -> tuple[Device, TunnelRecord] | None:
    """Lock a device's tunnel; a revocation of the device waits. None unless the tunnel belongs to the device."""
    row = await transaction.row(_OWNED, tunnel_id=tunnel_id, fingerprint=fingerprint)
    if row is None:
        return None
    *shown, device, user, current = row
    if not current:
        # The statement waited for another transaction's change: the joined rows are older than that.
        shown = await transaction.row(RECORD_OF_TUNNEL, tunnel_id=tunnel_id)
        assert shown is not None
    found = from_json(Device, device)
    found.user = User(name=user)
    return found, parse_texts(*shown)


async def delete_tunnel(transaction: Statements, tunnel_id: uuid.UUID) -> None:
    """Remove a locked tunnel."""
    await transaction.run(_REMOVE, tunnel_id=tunnel_id)


class Inserted(enum.Enum):
    """The result of inserting a tunnel. EXISTS: the device has one to this resource already. CHANGED: its resource or
    gateway was changed, or is gone.
    """

    DONE = enum.auto()
    EXISTS = enum.auto()
    CHANGED = enum.auto()
    NO_ENDPOINT = enum.auto()


async def read_addresses(
    transaction: Statements, gateway_id: int, device_id: uuid.UUID
) -> tuple[Inner | None, str | None, str | None]:
    """The device's addresses at the gateway, and the highest that any device has there: of IPv4, and of IPv6."""
    [(mine, mine6, highest, highest6)] = await transaction.rows(
        _STANDING, at_gateway=gateway_id, of_device=device_id
    )
    return Inner(mine, mine6) if mine else None, highest, highest6


async def list_addresses(transaction: Statements, gateway_id: int) -> list[Inner]:
    """The addresses of all devices at the gateway."""
    return [Inner(*row) for row in await transaction.rows(_TAKEN, at_gateway=gateway_id)]


async def release_addresses(transaction: Statements, gateway_id: int) -> None:
    """Free the addresses of revoked devices without a tunnel at the gateway."""
    await transaction.run(_RELEASE, at_gateway=gateway_id)


async def insert_address(
    transaction: Statements, gateway_id: int, device_id: uuid.UUID, inner: Inner
) -> bool:
    """False when another device has taken one of the addresses, or this device already has other ones."""
    values = {"gateway_id": gateway_id, "device_id": device_id}
    row = await transaction.row(_ASSIGN, **values, address=inner.address, address6=inner.address6)
    return row is not None


async def insert_tunnel(
    transaction: Statements, tunnel: Tunnel, resource_version: int, gateway_version: int
) -> Inserted:
    """Insert the tunnel with an endpoint number that is free on its gateway."""
    versions = {"resource_version": resource_version, "gateway_version": gateway_version}
    values = {
        "id": tunnel.id,
        "device_id": tunnel.device_id,
        "resource_id": tunnel.resource_id,
        "gateway_id": tunnel.gateway_id,
        "state": tunnel.state,
        "generation": tunnel.generation,
        "peer_address": tunnel.peer_address,
        "peer_port": tunnel.peer_port,
        "path_mtu": tunnel.path_mtu,
        "permitted_until": tunnel.permitted_until,
        "policy_version": tunnel.policy_version,
        "moved_from": tunnel.moved_from,
    }
    for _ in range(_TRIES):
        if inserted := await transaction.row(_INSERT_TUNNEL, **values, **versions):
            tunnel.endpoint = inserted[0]
            return Inserted.DONE
        of = {"resource_id": tunnel.resource_id, "gateway_id": tunnel.gateway_id}
        if await transaction.row(_VERSIONS, **of) != (resource_version, gateway_version):
            return Inserted.CHANGED
        if await transaction.row(_THERE, of_device=tunnel.device_id, to_resource=tunnel.resource_id):
            return Inserted.EXISTS
    return Inserted.NO_ENDPOINT


async def insert_pair(
    transaction: Statements,
    tunnel_id: uuid.UUID,
    device_id: uuid.UUID,
    gateway_id: int,
    generation: int,
    tag: Tag,
    crypto_port: int | None,
    *,
    renewing: bool = False,
) -> Pair | None:
    """Insert two SAs with unique numbers; None when the gateway has no free numbers. `renewing`: set the tunnel's state to
    RENEWING.
    """
    for _ in range(_TRIES):
        drawn = {direction: draw() for direction in Direction}
        numbers = {f"{direction}_spi": one.spi for direction, one in drawn.items()}
        numbers |= {f"{direction}_sa_id": one.sa_id for direction, one in drawn.items()}
        inserted = await transaction.rows(
            _INSERT_RENEWED if renewing else _INSERT_SAS,
            tunnel_id=tunnel_id,
            gateway_id=gateway_id,
            device_id=device_id,
            generation=generation,
            tag=tag,
            crypto_port=crypto_port,
            **numbers,
        )
        if len(inserted) == len(drawn):
            slots = {Direction(direction): Slot(slot) for _, direction, slot in inserted}
            to_gateway, to_device = (
                SaNumbers(drawn[direction].spi, slots[direction], drawn[direction].sa_id)
                for direction in (Direction.TO_GATEWAY, Direction.TO_DEVICE)
            )
            return Pair(generation, to_gateway, to_device, tag, crypto_port)
        lost = [row[0] for row in inserted]
        await transaction.run(_TAKE_BACK, ids=lost)
    return None


async def delete_generations(
    transaction: Statements, tunnel_id: uuid.UUID, generations: frozenset[int]
) -> None:
    if generations:
        await transaction.run(_FORGET, of_tunnel=tunnel_id, generations=list(generations))


async def drain_generation(
    transaction: Statements, tunnel_id: uuid.UUID, generation: int, after: datetime.timedelta
) -> None:
    await transaction.run(_DRAIN, of_tunnel=tunnel_id, of_generation=generation, after=after)


async def start_leaving(transaction: Statements, tunnel_id: uuid.UUID, after: datetime.timedelta) -> None:
    """Another tunnel takes this one's place; this one is deleted when all of its SAs have drained."""
    await transaction.run(_LEAVE, tunnel_id=tunnel_id)
    await transaction.run(_DRAIN_ALL, of_tunnel=tunnel_id, after=after)


async def update_tunnel(transaction: Statements, tunnel_id: uuid.UUID, **values: object) -> None:
    await transaction.run(_update(frozenset(values)), tunnel_id=tunnel_id, **values)


@functools.cache
def _update(columns: frozenset[str]) -> Statement:
    values: dict[str, Any] = {name: bindparam(name) for name in sorted(columns)}
    return Statement(update(_TUNNELS).where(_TUNNELS.c.id == bindparam("tunnel_id")).values(values))
