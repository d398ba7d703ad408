"""SQL about tunnels, their SAs and inner addresses."""

from __future__ import annotations

import datetime
import enum
import functools
import secrets
import uuid
from typing import Any, cast

from culvert_db import (
    Address,
    Device,
    Direction,
    Gateway,
    Resource,
    SecurityAssociation,
    Statement,
    Statements,
    Tunnel,
    TunnelState,
)
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import ENDPOINTS
from sqlalchemy import (
    BigInteger,
    Integer,
    Interval,
    Table,
    bindparam,
    delete,
    exists,
    func,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.gateways.sa import SaNumbers, Slot, Tag, draw
from culvert_service.gateways.tunnel_entries import Pair
from culvert_service.tunnels.free_number import free_number
from culvert_service.tunnels.pool import Inner, address_after, free_address
from culvert_service.tunnels.sa_rows import insert_sas

# A statement that a click waits for names its tables and is compiled once.
_TUNNELS = cast("Table", Tunnel.__table__)
_SAS = cast("Table", SecurityAssociation.__table__)
_ADDRESSES = cast("Table", Address.__table__)
_DEVICES = cast("Table", Device.__table__)
_RESOURCES = cast("Table", Resource.__table__)
_GATEWAYS = cast("Table", Gateway.__table__)


_GIVEN = [column for column in _TUNNELS.c if column.server_default is None and column.name != "endpoint"]
# As they were read. Who changes one of them has it locked, is waited for, and has made it another version.
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
            free_number(_TUNNELS.c.endpoint, ENDPOINTS),
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
# The device's addresses, and the highest that anybody has, of each family.
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
# Free the addresses of devices that never come back.
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
# Draws of random numbers, or of the lowest free address, before it is called a fault.
_TRIES = 16
# By how much further, for each address that was lost, the next is looked for.
_SPREAD = 16


class Inserted(enum.Enum):
    """How an insertion of a tunnel went. EXISTS: the device has one to this resource already. CHANGED: its resource or
    gateway was changed, or is gone.
    """

    DONE = enum.auto()
    EXISTS = enum.auto()
    CHANGED = enum.auto()
    NO_ENDPOINT = enum.auto()


async def assign_address(transaction: Statements, gateway: Gateway, device_id: uuid.UUID) -> Inner:
    """The device's addresses in the gateway's pools. Raises CulvertError POOL_EXHAUSTED.

    Above the highest as long as there is room, which costs the same however many there are; then what is free between.
    """
    released = False
    for lost in range(_TRIES):
        # After each lost race for an address, skip a random number of addresses, to avoid the next race.
        skip = secrets.randbelow(_SPREAD * lost + 1)
        mine, above = await _standing(transaction, gateway, device_id, skip)
        if mine is not None:
            return mine
        found = above or await _between(transaction, gateway, skip)
        if found is None:
            if released:
                break
            # As late as can be: what a packet capture or a log says of an address holds for long.
            await transaction.run(_RELEASE, at_gateway=gateway.id)
            released = True
            continue
        # Someone may have been faster: then look again.
        if await _assigned(transaction, gateway, device_id, found):
            return found
    raise CulvertError(Reason.POOL_EXHAUSTED, gateway=gateway.name)


async def assign_early(transaction: Statements, gateway: Gateway, device_id: uuid.UUID) -> Inner | None:
    """As `assign_address`, for a device that may never open a tunnel: devices that do have the upper half of the pools."""
    for lost in range(_TRIES):
        mine, above = await _standing(transaction, gateway, device_id, secrets.randbelow(_SPREAD * lost + 1))
        if mine is not None:
            return mine
        if above is None or not above.leaves_half(gateway.pool, gateway.pool6):
            return None
        if await _assigned(transaction, gateway, device_id, above):
            return above
    return None


async def _standing(
    transaction: Statements, gateway: Gateway, device_id: uuid.UUID, skip: int
) -> tuple[Inner | None, Inner | None]:
    """The device's addresses, and the ones after the highest that anybody has."""
    [(mine, mine6, highest, highest6)] = await transaction.rows(
        _STANDING, at_gateway=gateway.id, of_device=device_id
    )
    above = _both(
        gateway,
        address_after(gateway.pool, highest, skip),
        address_after(gateway.pool6, highest6, skip) if gateway.pool6 else None,
    )
    return Inner(mine, mine6) if mine else None, above


async def _assigned(transaction: Statements, gateway: Gateway, device_id: uuid.UUID, inner: Inner) -> bool:
    values = {"gateway_id": gateway.id, "device_id": device_id}
    row = await transaction.row(_ASSIGN, **values, address=inner.address, address6=inner.address6)
    return row is not None


async def _between(transaction: Statements, gateway: Gateway, skip: int) -> Inner | None:
    taken = await transaction.rows(_TAKEN, at_gateway=gateway.id)
    address = free_address(gateway.pool, [row[0] for row in taken], skip)
    used6 = [row[1] for row in taken if row[1]]
    address6 = free_address(gateway.pool6, used6, skip) if gateway.pool6 else None
    return _both(gateway, address, address6)


def _both(gateway: Gateway, address: str | None, address6: str | None) -> Inner | None:
    if address is None or (gateway.pool6 and address6 is None):
        return None
    return Inner(address, address6)


async def delete_addresses_outside(session: AsyncSession, gateway: Gateway) -> None:
    """Delete addresses outside of the pool, of devices without a tunnel there."""
    found = await session.execute(
        select(Address.device_id, Address.address, Address.address6).where(Address.gateway_id == gateway.id)
    )
    outside = [row[0] for row in found if not Inner(row[1], row[2]).belongs(gateway.pool, gateway.pool6)]
    await session.execute(
        delete(Address).where(Address.gateway_id == gateway.id, Address.device_id.in_(outside))
    )


async def insert_tunnel(
    transaction: Statements, tunnel: Tunnel, resource_version: int, gateway_version: int
) -> Inserted:
    """Gives the tunnel an endpoint that no other has on its gateway."""
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
    *,
    renewing: bool = False,
) -> Pair | None:
    """Two SAs with numbers that nobody else has; None when the gateway has none left. `renewing` is the tunnel's state
    from now on.
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


async def leave(transaction: Statements, tunnel_id: uuid.UUID, after: datetime.timedelta) -> None:
    """Another takes the tunnel's place; this one goes when all of its SAs have drained."""
    await transaction.run(_LEAVE, tunnel_id=tunnel_id)
    await transaction.run(_DRAIN_ALL, of_tunnel=tunnel_id, after=after)


async def update_tunnel(transaction: Statements, tunnel_id: uuid.UUID, **values: object) -> None:
    await transaction.run(_update(frozenset(values)), tunnel_id=tunnel_id, **values)


@functools.cache
def _update(columns: frozenset[str]) -> Statement:
    values: dict[str, Any] = {name: bindparam(name) for name in sorted(columns)}
    return Statement(update(_TUNNELS).where(_TUNNELS.c.id == bindparam("tunnel_id")).values(values))
