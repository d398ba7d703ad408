"""SQL about what hangs on a resource."""

from __future__ import annotations

from dataclasses import dataclass

from culvert_db import (
    DnsZone,
    GroupMember,
    Policy,
    PolicyResource,
    Resource,
    SiteTunnel,
    SiteTunnelResource,
    Tunnel,
    User,
)
from culvert_db.text import by_code_point
from sqlalchemy import exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased


@dataclass(frozen=True, slots=True)
class Zone:
    """As a new resource meets it: a view with a choice of its own does not hold it."""

    name: str
    origin: str
    only: frozenset[str] | None
    retiring: bool


@dataclass(frozen=True, slots=True)
class Use:
    tunnels: int
    people: int
    policies_deleted: list[str]
    site_tunnels: list[str]


async def zones(session: AsyncSession) -> list[Zone]:
    query = select(DnsZone).order_by(by_code_point(DnsZone.name))
    return [
        Zone(it.name, it.origin, None if it.all_resources else frozenset(), it.retiring)
        for it in await session.scalars(query)
    ]


async def use(session: AsyncSession, name: str) -> Use | None:
    number = await session.scalar(select(Resource.id).where(Resource.name == name))
    if number is None:
        return None
    tunnels = select(func.count()).where(Tunnel.resource_id == number, Tunnel.stays())
    in_group = exists().where(GroupMember.group_id == Policy.group_id, GroupMember.user_id == User.id)
    people = (
        select(func.count(User.id.distinct()))
        .select_from(Policy)
        .join(PolicyResource, PolicyResource.policy_id == Policy.id)
        .join(User, or_(Policy.user_id == User.id, in_group))
        .where(PolicyResource.resource_id == number, Policy.enabled)
    )
    other = aliased(PolicyResource)
    elsewhere = exists().where(other.policy_id == Policy.id, other.resource_id != number)
    deleted = (
        select(Policy.name)
        .join(PolicyResource, PolicyResource.policy_id == Policy.id)
        .where(PolicyResource.resource_id == number, ~elsewhere)
        .order_by(by_code_point(Policy.name))
    )
    carries = exists().where(
        SiteTunnelResource.site_tunnel_id == SiteTunnel.id, SiteTunnelResource.resource_id == number
    )
    site_tunnels = select(SiteTunnel.name).where(carries).order_by(by_code_point(SiteTunnel.name))
    return Use(
        await session.scalar(tunnels) or 0,
        await session.scalar(people) or 0,
        list(await session.scalars(deleted)),
        list(await session.scalars(site_tunnels)),
    )
