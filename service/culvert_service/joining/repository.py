"""SQL about enrolments of gateways."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator, Sequence

from culvert_db import Gateway, GatewayEnrolment, Resource, SiteTunnel
from culvert_proto.phrases import Phrase
from sqlalchemy import delete, func, select, union, update
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.rest.page import Cut


def overlap(one: str, other: str) -> bool:
    """Whether two prefixes or addresses have a common address."""
    a, b = (ipaddress.ip_network(it, strict=False) for it in (one, other))
    return a.version == b.version and a.overlaps(b)


async def enrolments(
    session: AsyncSession, cut: Cut, open_at: datetime.datetime | None = None
) -> Sequence[GatewayEnrolment]:
    """Oldest first. `open_at`: only those whose link works at this time."""
    query = select(GatewayEnrolment)
    if open_at is not None:
        query = query.where(GatewayEnrolment.used_at.is_(None), GatewayEnrolment.expires_at > open_at)
    return (await session.scalars(cut.of(query, GatewayEnrolment.id))).all()


async def enrolment(session: AsyncSession, number: int) -> GatewayEnrolment | None:
    return await session.get(GatewayEnrolment, number)


async def by_token(session: AsyncSession, token_hash: bytes) -> GatewayEnrolment | None:
    return await session.scalar(select(GatewayEnrolment).where(GatewayEnrolment.token_hash == token_hash))


async def delete_of(session: AsyncSession, gateway: str) -> None:
    await session.execute(delete(GatewayEnrolment).where(GatewayEnrolment.gateway == gateway))


async def withdraw(session: AsyncSession, number: int) -> str | None:
    """Delete the enrolment and return its gateway's name; None if it is unknown."""
    which = GatewayEnrolment.id == number
    return await session.scalar(delete(GatewayEnrolment).where(which).returning(GatewayEnrolment.gateway))


async def use(session: AsyncSession, token_hash: bytes, key_hash: bytes, now: datetime.datetime) -> bool:
    """Use the enrolment up. Only one of two concurrent calls gets it."""
    found = await session.scalar(
        update(GatewayEnrolment)
        .where(
            GatewayEnrolment.token_hash == token_hash,
            GatewayEnrolment.used_at.is_(None),
            GatewayEnrolment.expires_at > now,
        )
        .values(used_at=now, key_hash=key_hash)
        .returning(GatewayEnrolment.id)
    )
    return found is not None


async def find_joined(session: AsyncSession, key_hash: bytes) -> str | None:
    """The name of the gateway that has joined with this key."""
    return await session.scalar(select(Gateway.name).where(Gateway.key_hash == key_hash))


async def lock_joined(session: AsyncSession, key_hash: bytes) -> Gateway | None:
    """Lock the gateway that has joined with this key."""
    return await session.scalar(select(Gateway).where(Gateway.key_hash == key_hash).with_for_update())


async def overlapping(session: AsyncSession, gateway: str, pool: str) -> Phrase | None:
    """Another gateway's address pool, LAN or outer address that overlaps `pool`."""
    rows = await session.scalars(select(Gateway).where(Gateway.name != gateway).order_by(Gateway.id))
    found = (what for row in rows for prefix, what in _networks(row) if overlap(pool, prefix))
    return next(found, None)


async def known_networks(session: AsyncSession) -> list[str]:
    """Prefixes and addresses of gateways, of links that wait, of resources and of site tunnels."""
    gateways = (await session.scalars(select(Gateway))).all()
    found = [prefix for row in gateways for prefix, _ in _networks(row)]
    found += [prefix for row in gateways for prefix in row.lan.get("routes", {})]
    for pools in await session.execute(select(GatewayEnrolment.pool, GatewayEnrolment.pool6)):
        found += [str(pool) for pool in pools if pool is not None]
    lists = (Resource.targets, SiteTunnel.a_targets, SiteTunnel.b_targets)
    targets = [select(func.jsonb_array_elements(targets).op("->>")("prefix")) for targets in lists]
    return [*found, *(await session.scalars(union(*targets))).all()]


def _networks(row: Gateway) -> Iterator[tuple[str, Phrase]]:
    """A gateway's networks, each with its words."""
    for prefix in filter(None, (row.pool, row.pool6)):
        yield (
            str(prefix),
            Phrase("the address pool {prefix} of the gateway {gateway}", prefix=prefix, gateway=row.name),
        )
    for prefix in filter(None, (row.lan.get("prefix"), row.lan.get("prefix6"))):
        yield (
            str(prefix),
            Phrase("the LAN {prefix} of the gateway {gateway}", prefix=prefix, gateway=row.name),
        )
    for address in filter(None, (row.address, row.address6, row.public_address, row.public_address6)):
        yield (
            str(address),
            Phrase("the address {address} of the gateway {gateway}", address=address, gateway=row.name),
        )
