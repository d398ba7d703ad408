"""SQL about resources, and about what hangs on them."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from culvert_db import (
    DnsZone,
    DnsZoneResource,
    Gateway,
    GroupMember,
    Policy,
    PolicyResource,
    Resource,
    ResourceGateway,
    SiteTunnel,
    SiteTunnelResource,
    Tunnel,
    User,
)
from culvert_db.text import by_code_point, folded
from culvert_proto.dns_name import normalise_search
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    ScalarSelect,
    Select,
    any_,
    delete,
    exists,
    func,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, selectinload

from culvert_service.rest.page import Order, Sort, contains_text

_Query = TypeVar("_Query", bound=Select[*tuple[Any, ...]])


def select_matching(names: BindParameter[Sequence[str]]) -> ScalarSelect[int]:
    """The id of the resource that matches first among these names of dns_name.candidates."""
    named = aliased(Resource)
    found = select(named.id).where(named.fqdn == any_(names))
    return found.order_by(func.array_position(names, named.fqdn)).limit(1).scalar_subquery()


def name_contains(text: str) -> ColumnElement[bool]:
    """Whether one of a resource's names contains the text, in any spelling."""
    typed = normalise_search(text)
    # Python has lowered the case, because the database may only lower ASCII letters.
    return or_(
        contains_text(typed, Resource.name, Resource.fqdn),
        Resource.unicode_name.contains(typed, autoescape=True),
    )


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone as a resource sees it. `only`: empty for a zone whose list of resources lacks it."""

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


BY_ID = Order(Resource.id, int)
ORDERS = {
    "fqdn": Order(Resource.fqdn, str),
    "owner": Order(folded(Resource.owner), str),
    "created": Order(Resource.created_at, datetime.datetime),
}


async def resources(session: AsyncSession, sort: Sort, q: str | None, gateway: str | None) -> list[Resource]:
    query = _whole()
    if q is not None:
        query = query.where(or_(name_contains(q), contains_text(q, Resource.owner)))
    if gateway is not None:
        query = query.where(Resource.gateways.any(ResourceGateway.gateway.has(Gateway.name == gateway)))
    return await sort.entities(session, query)


async def by_name(session: AsyncSession, name: str) -> Resource | None:
    return await session.scalar(_whole().where(Resource.name == name))


async def lock(session: AsyncSession, name: str) -> Resource | None:
    """Lock the resource: no tunnel to it opens until this transaction ends."""
    return await session.scalar(select(Resource).where(Resource.name == name).with_for_update())


async def people_of(session: AsyncSession, resource_ids: Sequence[int]) -> dict[int, list[str]]:
    """For each resource, the names of people with an enabled policy of their own to it."""
    query = (
        select(PolicyResource.resource_id, User.name)
        .join(Policy, Policy.id == PolicyResource.policy_id)
        .join(User, User.id == Policy.user_id)
        .where(Policy.enabled, PolicyResource.resource_id.in_(resource_ids))
        .distinct()
    )
    found: dict[int, list[str]] = {}
    for resource_id, name in await session.execute(query):
        found.setdefault(resource_id, []).append(name)
    return found


async def replace_gateways(
    session: AsyncSession, resource_id: int, serving: Sequence[ResourceGateway]
) -> None:
    await session.execute(delete(ResourceGateway).where(ResourceGateway.resource_id == resource_id))
    for one in serving:
        one.resource_id = resource_id
    session.add_all(serving)
    await session.flush()


async def withdraw(session: AsyncSession, resource_id: int, people: Collection[str]) -> None:
    """Take the resource out of these people's enabled policies; delete policies without a resource."""
    theirs = select(Policy.id).join(User, User.id == Policy.user_id)
    leads = (
        PolicyResource.resource_id == resource_id,
        PolicyResource.policy_id.in_(theirs.where(Policy.enabled, User.name.in_(people))),
    )
    await session.execute(delete(PolicyResource).where(*leads))
    await delete_policies_without_resources(session)


async def delete_policies_without_resources(session: AsyncSession) -> None:
    leads = exists().where(PolicyResource.policy_id == Policy.id)
    await session.execute(delete(Policy).where(~leads))


async def gateways_named(session: AsyncSession, names: Sequence[str]) -> dict[str, Gateway]:
    found = await session.scalars(select(Gateway).where(Gateway.name.in_(names)))
    return {gateway.name: gateway for gateway in found}


async def users_named(session: AsyncSession, names: Sequence[str]) -> dict[str, User]:
    found = await session.scalars(select(User).where(User.name.in_(names)))
    return {user.name: user for user in found}


async def zones(session: AsyncSession, resource_id: int) -> list[Zone]:
    listed = exists().where(DnsZoneResource.zone_id == DnsZone.id, DnsZoneResource.resource_id == resource_id)
    query = select(DnsZone, or_(DnsZone.all_resources, listed)).order_by(by_code_point(DnsZone.name))
    return [
        Zone(it.name, it.origin, None if takes else frozenset(), it.retiring)
        for it, takes in await session.execute(query)
    ]


@dataclass(frozen=True, slots=True)
class State:
    """A resource as it is published and used. `moving`: the number of its tunnels that have to leave their gateway."""

    fqdn: str
    targets: Sequence[Mapping[str, Any]]
    zones: Sequence[Zone]
    people: frozenset[str]
    tunnels: int
    moving: int


async def state(session: AsyncSession, name: str) -> State | None:
    query = select(Resource.id, Resource.fqdn, Resource.targets).where(Resource.name == name)
    found = (await session.execute(query)).one_or_none()
    if found is None:
        return None
    number, fqdn, targets = found
    tunnels = select(func.count(), func.count().filter(Tunnel.led_away))
    count = (await session.execute(tunnels.where(Tunnel.resource_id == number, Tunnel.stays()))).one()
    people = frozenset(await session.scalars(_permitted(select(User.name).distinct(), number)))
    return State(fqdn, targets, await zones(session, number), people, count[0], count[1])


def _permitted(people: _Query, resource_id: int) -> _Query:
    """Restrict the query to people whom an enabled policy permits to reach the resource."""
    in_group = exists().where(GroupMember.group_id == Policy.group_id, GroupMember.user_id == User.id)
    return (
        people.select_from(Policy)
        .join(PolicyResource, PolicyResource.policy_id == Policy.id)
        .join(User, or_(Policy.user_id == User.id, in_group))
        .where(PolicyResource.resource_id == resource_id, Policy.enabled)
    )


async def use(session: AsyncSession, name: str) -> Use | None:
    number = await session.scalar(select(Resource.id).where(Resource.name == name))
    if number is None:
        return None
    tunnels = select(func.count()).where(Tunnel.resource_id == number, Tunnel.stays())
    people = _permitted(select(func.count(User.id.distinct())), number)
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


def _whole() -> Select[Resource]:
    return select(Resource).options(
        selectinload(Resource.gateways).joinedload(ResourceGateway.gateway),
    )
