"""SQL about site tunnels."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection

from culvert_db import (
    SITE_TUNNELS_CHANNEL,
    Direction,
    Gateway,
    InSession,
    Resource,
    ResourceGateway,
    SecurityAssociation,
    SiteTunnel,
    SiteTunnelResource,
    SiteTunnelState,
    Statement,
    clock,
    notify,
)
from culvert_db.text import by_code_point
from sqlalchemy import ColumnElement, Text, cast, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import joinedload, selectinload

from culvert_service.gateways.free_numbers import insert_sas
from culvert_service.gateways.sa import draw
from culvert_service.resources.repository import name_contains
from culvert_service.rest.page import NEVER, Order, Sort, contains_text
from culvert_service.site_tunnels.record import FIXED_PEER, SiteTunnelRecord, parse, wanted_suite

# Draws of random numbers before an error is reported.
_TRIES = 16
_INSERT_SAS = Statement(insert_sas("site_tunnel_id"))


BY_NAME = Order(SiteTunnel.name, str)
# The time at which the keys in use were made.
_KEYED = (
    select(func.min(SecurityAssociation.made_at))
    .where(
        SecurityAssociation.site_tunnel_id == SiteTunnel.id,
        SecurityAssociation.generation == SiteTunnel.generation,
    )
    .correlate(SiteTunnel)
    .scalar_subquery()
)
ORDERS = {
    "name": BY_NAME,
    "state": Order(cast(SiteTunnel.state, Text), str),
    "keyed": Order(func.coalesce(_KEYED, NEVER), datetime.datetime),
}


async def rows(
    session: AsyncSession, sort: Sort | None = None, *which: ColumnElement[bool]
) -> list[SiteTunnel]:
    """Sorted by name, or one page in the order of `sort`; with gateways, resources and SAs."""
    query = (
        select(SiteTunnel)
        .where(*which)
        .options(joinedload(SiteTunnel.a), joinedload(SiteTunnel.b), selectinload(SiteTunnel.sas))
        .options(selectinload(SiteTunnel.carried).joinedload(SiteTunnelResource.resource))
        .execution_options(populate_existing=True)
    )
    if sort is not None:
        return await sort.entities(session, query)
    return list(await session.scalars(query.order_by(by_code_point(SiteTunnel.name))))


def names_contain(text: str) -> ColumnElement[bool]:
    at_end = contains_text(text, Gateway.name)
    carried = SiteTunnelResource.resource.has(name_contains(text))
    return or_(
        contains_text(text, SiteTunnel.name),
        SiteTunnel.a.has(at_end),
        SiteTunnel.b.has(at_end),
        SiteTunnel.carried.any(carried),
    )


async def rows_at(session: AsyncSession, gateway_id: int) -> list[SiteTunnel]:
    """The tunnels that end at the gateway."""
    return await rows(session, None, or_(*ends_at(gateway_id)))


async def records(session: AsyncSession, *which: ColumnElement[bool]) -> list[SiteTunnelRecord]:
    found = await rows(session, None, *which)
    now = await clock(session) if found else None
    return [parse(row, now) for row in found if now is not None]


async def at_gateway(session: AsyncSession, gateway_id: int) -> list[SiteTunnelRecord]:
    return await records(session, or_(*ends_at(gateway_id)))


def ends_at(gateway_id: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return SiteTunnel.a_gateway_id == gateway_id, SiteTunnel.b_gateway_id == gateway_id


async def lock_tunnel(session: AsyncSession, *which: ColumnElement[bool]) -> SiteTunnel | None:
    """Lock the tunnel until this transaction ends, and return it."""
    # Lock first, so that the joined rows are read after the previous lock holder has committed.
    found = await session.scalar(select(SiteTunnel.id).where(*which).with_for_update())
    return None if found is None else (await rows(session, None, SiteTunnel.id == found))[0]


async def gateways_locked(session: AsyncSession, names: Collection[str]) -> dict[str, Gateway]:
    """Lock gateways: until this transaction ends no other transaction adds a site tunnel. Devices' tunnels may change."""
    query = select(Gateway).where(Gateway.name.in_(names)).order_by(Gateway.id)
    return {it.name: it for it in await session.scalars(query.with_for_update(key_share=True))}


async def resources_kept(session: AsyncSession, names: Collection[str]) -> dict[str, Resource]:
    """Lock resources until this transaction ends. Lock them before tunnels and gateways, in the order of a resource's
    change.
    """
    query = select(Resource).where(Resource.name.in_(names)).order_by(Resource.id)
    return {it.name: it for it in await session.scalars(query.with_for_update(read=True))}


async def find_serving(session: AsyncSession, resource_ids: Collection[int]) -> set[tuple[int, int]]:
    """Each of the resources with each gateway that serves it."""
    query = select(ResourceGateway.resource_id, ResourceGateway.gateway_id)
    found = await session.execute(query.where(ResourceGateway.resource_id.in_(resource_ids)))
    return {(resource_id, gateway_id) for resource_id, gateway_id in found}


async def lock_carrying(session: AsyncSession, resource_id: int) -> list[SiteTunnel]:
    """Lock the site tunnels that carry the resource until this transaction ends, and return them."""
    of_it = select(SiteTunnelResource.site_tunnel_id).where(SiteTunnelResource.resource_id == resource_id)
    query = select(SiteTunnel.id).where(SiteTunnel.id.in_(of_it)).order_by(SiteTunnel.id)
    found = (await session.scalars(query.with_for_update())).all()
    if not found:
        return []
    return await rows(session, None, SiteTunnel.id.in_(found))


async def count_version(session: AsyncSession, tunnels: Collection[uuid.UUID]) -> None:
    """Increase the version of tunnels whose packets changed through their resources."""
    touched = update(SiteTunnel).where(SiteTunnel.id.in_(tunnels)).values(version=SiteTunnel.version)
    await session.execute(touched.execution_options(synchronize_session=False))


async def insert_pairs(
    session: AsyncSession, tunnel: SiteTunnel, generation: int, crypto_ports: tuple[int | None, int | None]
) -> bool:
    """Insert SAs with unique numbers at both gateways; False when one of them has no free numbers.

    `crypto_ports`: of the two gateways, as in `Pair`.
    """
    for _ in range(_TRIES):
        spis = {gateway: draw().spi for gateway in (tunnel.a_gateway_id, tunnel.b_gateway_id)}
        inserted = 0
        for gateway, other, crypto_port in (
            (tunnel.a_gateway_id, tunnel.b_gateway_id, crypto_ports[0]),
            (tunnel.b_gateway_id, tunnel.a_gateway_id, crypto_ports[1]),
        ):
            # The receiver chooses an SPI (RFC 4301 section 4.1).
            drawn = {
                "to_gateway_spi": spis[gateway],
                "to_device_spi": spis[other],
                "to_gateway_sa_id": draw().sa_id,
                "to_device_sa_id": draw().sa_id,
            }
            inserted += len(
                await InSession(session).rows(
                    _INSERT_SAS,
                    site_tunnel_id=tunnel.id,
                    gateway_id=gateway,
                    generation=generation,
                    tag=FIXED_PEER,
                    crypto_port=crypto_port,
                    **drawn,
                )
            )
        if inserted == 2 * len(Direction):
            await session.execute(
                update(SecurityAssociation)
                .where(
                    SecurityAssociation.site_tunnel_id == tunnel.id,
                    SecurityAssociation.generation == generation,
                )
                .values(suite=wanted_suite(tunnel).value)
            )
            return True
        await delete_generations(session, tunnel.id, {generation})
    return False


async def delete_generations(
    session: AsyncSession, tunnel_id: uuid.UUID, generations: Collection[int]
) -> None:
    await session.execute(
        delete(SecurityAssociation).where(
            SecurityAssociation.site_tunnel_id == tunnel_id, SecurityAssociation.generation.in_(generations)
        )
    )


async def record_switch(
    session: AsyncSession, record: SiteTunnelRecord, before: Collection[int], drain: datetime.timedelta
) -> bool:
    """Record a switch, and let the generations `before` drain. False if the tunnel changed meanwhile."""
    done = (
        update(SiteTunnel)
        .where(
            SiteTunnel.id == record.id,
            SiteTunnel.generation == record.keys.current,
            SiteTunnel.version == record.version,
            SiteTunnel.state == SiteTunnelState.SWITCHING,
        )
        .values(state=SiteTunnelState.UP, problem="")
        .returning(SiteTunnel.id)
    )
    if await session.scalar(done) is None:
        return False
    await session.execute(
        update(SecurityAssociation)
        .where(SecurityAssociation.site_tunnel_id == record.id, SecurityAssociation.generation.in_(before))
        .values(drain_until=func.now() + drain)
    )
    return True


async def lose(session: AsyncSession, tunnel_id: uuid.UUID, generation: int, why: str) -> bool:
    """Mark the generation as lost. False if it was already lost or is no longer current."""
    found = await session.scalar(
        update(SiteTunnel)
        .where(
            SiteTunnel.id == tunnel_id,
            SiteTunnel.generation == generation,
            SiteTunnel.state != SiteTunnelState.DOWN,
        )
        .values(state=SiteTunnelState.DOWN, problem=why)
        .returning(SiteTunnel.id)
    )
    return found is not None


async def trouble(session: AsyncSession, tunnel_id: uuid.UUID, why: str) -> None:
    await session.execute(
        update(SiteTunnel).where(SiteTunnel.id == tunnel_id, SiteTunnel.problem != why).values(problem=why)
    )


async def of_sa(session: AsyncSession, gateway_id: int, sa_id: int) -> tuple[uuid.UUID, int] | None:
    """The site tunnel and generation of an SA."""
    query = (
        select(SiteTunnel.id, SecurityAssociation.generation)
        .join(SecurityAssociation, SecurityAssociation.site_tunnel_id == SiteTunnel.id)
        .where(SecurityAssociation.gateway_id == gateway_id, SecurityAssociation.sa_id == sa_id)
    )
    row = (await session.execute(query)).first()
    return None if row is None else (row[0], row[1])


async def tell(session: AsyncSession, payload: str = "") -> None:
    """Notify every controller, once this commits."""
    await notify(session, SITE_TUNNELS_CHANNEL, payload)


async def neighbours(session: AsyncSession, tunnel: SiteTunnel) -> list[SiteTunnel]:
    """The other site tunnels at its gateways."""
    ends = [end for gateway in (tunnel.a_gateway_id, tunnel.b_gateway_id) for end in ends_at(gateway)]
    return await rows(session, None, SiteTunnel.id != tunnel.id, or_(*ends))
