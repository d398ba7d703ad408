"""SQL about groups and policies, and for the access tracer."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass

from culvert_db import (
    Device,
    DeviceState,
    GatewayHealth,
    Group,
    GroupMember,
    Policy,
    PolicyResource,
    PolicyUse,
    Resource,
    ResourceGateway,
    User,
)
from culvert_db.text import by_code_point, folded
from culvert_proto.dns_name import candidates
from sqlalchemy import (
    ScalarSelect,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import contains_eager, joinedload, selectinload

from culvert_service.decision.repository import AS_JSON, POLICIES, as_of, concerns
from culvert_service.resources.repository import name_contains, select_matching
from culvert_service.rest.page import NEVER, Order, Sort, contains_text

# The ids of a policy's group and person, of which one is None.
Subject = tuple[int | None, int | None]
Subjects = tuple[Subject, ...]

_WHOLE = (
    joinedload(Policy.group),
    joinedload(Policy.user),
    selectinload(Policy.resources),
    joinedload(Policy.use),
)

UNUSED_DAYS = 90
_KEPT_FROM = func.now() - datetime.timedelta(days=UNUSED_DAYS)
_KEPT_FROM_DAY = func.date(func.timezone("UTC", _KEPT_FROM))
_IS_UNUSED = and_(
    Policy.created_at < _KEPT_FROM,
    ~exists().where(
        PolicyUse.policy_id == Policy.id,
        or_(PolicyUse.counted_from >= _KEPT_FROM, PolicyUse.last_used_on >= _KEPT_FROM_DAY),
    ),
)


@dataclass(frozen=True, slots=True)
class Sought:
    """A filter of policies: `q` in a name of the policy, its people or its resources. None: any.

    `unused`: only those that nobody has used for UNUSED_DAYS.
    """

    q: str | None = None
    group: str | None = None
    resource: str | None = None
    unused: bool = False


BY_GROUP_NAME = Order(Group.name, str)
_MEMBERS = select(func.count()).where(GroupMember.group_id == Group.id).correlate(Group).scalar_subquery()
GROUP_ORDERS = {"name": BY_GROUP_NAME, "members": Order(_MEMBERS, int)}


async def groups(session: AsyncSession, sort: Sort, q: str | None) -> list[Group]:
    """Without their members."""
    query = select(Group)
    if q is not None:
        query = query.where(or_(contains_text(q, Group.name), Group.members.any(contains_text(q, User.name))))
    return await sort.entities(session, query)


async def group_alone(session: AsyncSession, name: str) -> Group | None:
    """Without its members."""
    return await session.scalar(select(Group).where(Group.name == name))


async def some_members(
    session: AsyncSession, groups: Collection[int], limit: int
) -> dict[int, tuple[int, list[str]]]:
    """For each group with members: their count and their first names."""
    among = GroupMember.group_id.in_(groups)
    counts = select(GroupMember.group_id, func.count()).where(among).group_by(GroupMember.group_id)
    found = {group: (count, list[str]()) for group, count in await session.execute(counts)}
    names = (
        select(User.name)
        .join(GroupMember, GroupMember.user_id == User.id)
        .where(GroupMember.group_id == Group.id)
        .order_by(by_code_point(User.name))
        .limit(limit)
        .lateral()
    )
    first = select(Group.id, names.c.name).join(names, true()).where(Group.id.in_(groups))
    for group, name in await session.execute(first):
        # A group that was empty a moment ago has no count.
        if group in found:
            found[group][1].append(name)
    return found


async def group(session: AsyncSession, name: str) -> Group | None:
    query = select(Group).options(selectinload(Group.members)).where(Group.name == name)
    return await session.scalar(query)


async def add_member(session: AsyncSession, group_id: int, user_id: int) -> None:
    values = {"group_id": group_id, "user_id": user_id}
    await session.execute(insert(GroupMember).values(values).on_conflict_do_nothing())


async def remove_member(session: AsyncSession, group_id: int, user_id: int) -> None:
    which = (GroupMember.group_id == group_id, GroupMember.user_id == user_id)
    await session.execute(delete(GroupMember).where(*which))


async def lock_group(session: AsyncSession, name: str) -> int | None:
    """Lock the group and return its version."""
    return await session.scalar(select(Group.version).where(Group.name == name).with_for_update())


BY_POLICY_NAME = Order(Policy.name, str)
# The policy's group or person, as screens show it.
_SUBJECT = func.coalesce(
    select(Group.name).where(Group.id == Policy.group_id).correlate(Policy).scalar_subquery(),
    select(func.coalesce(User.display_name, User.name))
    .where(User.id == Policy.user_id)
    .correlate(Policy)
    .scalar_subquery(),
)
_LAST_USED = (
    select(PolicyUse.last_used_on).where(PolicyUse.policy_id == Policy.id).correlate(Policy).scalar_subquery()
)
POLICY_ORDERS = {
    "name": BY_POLICY_NAME,
    "subject": Order(folded(_SUBJECT), str),
    "last_used": Order(
        func.coalesce(func.timezone("UTC", cast(_LAST_USED, TIMESTAMP)), NEVER), datetime.datetime
    ),
}


async def policies(session: AsyncSession, sort: Sort, sought: Sought) -> list[Policy]:
    query = select(Policy).options(*_WHOLE)
    if sought.q is not None:
        in_names = (
            Policy.group.has(contains_text(sought.q, Group.name)),
            Policy.user.has(contains_text(sought.q, User.name)),
            Policy.resources.any(name_contains(sought.q)),
        )
        query = query.where(or_(contains_text(sought.q, Policy.name), *in_names))
    if sought.group is not None:
        query = query.where(Policy.group.has(Group.name == sought.group))
    if sought.resource is not None:
        query = query.where(Policy.resources.any(Resource.name == sought.resource))
    if sought.unused:
        query = query.where(_IS_UNUSED)
    return await sort.entities(session, query)


async def list_unused(session: AsyncSession, policies: Collection[int]) -> Set[int]:
    """The ids, among these policies' ids, of those that nobody has used for UNUSED_DAYS."""
    return set(await session.scalars(select(Policy.id).where(Policy.id.in_(policies), _IS_UNUSED)))


async def count_uses_again(session: AsyncSession, policy: int) -> None:
    """From now on: a policy that was changed is as young as a new one."""
    values = {"policy_id": policy, "counted_from": func.now()}
    again = insert(PolicyUse).values(values)
    await session.execute(again.on_conflict_do_update(index_elements=["policy_id"], set_=values))


async def of_group(session: AsyncSession, name: str) -> Sequence[Policy]:
    """The group's policies, with their resources."""
    query = (
        select(Policy).options(selectinload(Policy.resources)).join(Policy.group).where(Group.name == name)
    )
    return (await session.scalars(query.order_by(by_code_point(Policy.name)))).all()


@dataclass(frozen=True, slots=True)
class Reach:
    """The people that enabled policies permit to reach some resources.

    `grants`: the resources of each group and of each person named by a policy. `people`: of each person, the groups and
    the person's own id among these. Pairs of a person and a resource would be a hundred times as many.
    """

    grants: Mapping[Subject, frozenset[int]]
    people: Mapping[str, Subjects]

    def of(self, subjects: Subjects) -> frozenset[int]:
        """The resources."""
        return frozenset[int]().union(*(self.grants[subject] for subject in subjects))


async def reach(session: AsyncSession, resources: Collection[str]) -> Reach:
    """`resources`: names."""
    granted = (
        select(Policy.group_id, Policy.user_id, func.array_agg(Resource.id.distinct()))
        .join(PolicyResource, PolicyResource.policy_id == Policy.id)
        .join(Resource, Resource.id == PolicyResource.resource_id)
        .where(Policy.enabled, Resource.name.in_(resources))
        .group_by(Policy.group_id, Policy.user_id)
    )
    grants: dict[Subject, frozenset[int]] = {
        (group, user): frozenset(found) for group, user, found in await session.execute(granted)
    }
    people: dict[str, Subjects] = {}
    # Few sets of groups for many people: each is kept once.
    kept: dict[Subjects, Subjects] = {}
    in_groups = (
        select(User.name, func.array_agg(GroupMember.group_id.distinct()))
        .join(GroupMember, GroupMember.user_id == User.id)
        .where(GroupMember.group_id.in_([group for group, _ in grants if group is not None]))
        .group_by(User.name)
    )
    for name, groups in await session.execute(in_groups):
        subjects = tuple((group, None) for group in groups)
        people[name] = kept.setdefault(subjects, subjects)
    themselves = select(User.name, User.id).where(
        User.id.in_([user for _, user in grants if user is not None])
    )
    for name, number in await session.execute(themselves):
        people[name] = (*people.get(name, ()), (None, number))
    return Reach(grants, people)


async def list_ways(
    session: AsyncSession, resources: Collection[str]
) -> Sequence[tuple[Subject, str, frozenset[int]]]:
    """Group or person, what `facts.parse` takes, and those of these resources, of each enabled policy to any of them."""
    query = (
        select(
            Policy.group_id,
            Policy.user_id,
            cast(func.jsonb_build_array(AS_JSON), Text),
            func.array_agg(Resource.id),
        )
        .join(PolicyResource, PolicyResource.policy_id == Policy.id)
        .join(Resource, Resource.id == PolicyResource.resource_id)
        .where(Policy.enabled, Resource.name.in_(resources))
        .group_by(Policy.id)
    )
    return [
        ((group, user), policy, frozenset(found))
        for group, user, policy, found in await session.execute(query)
    ]


async def devices_of(session: AsyncSession, people: Collection[str]) -> Sequence[Device]:
    """Those of these people, by login name, that are not revoked."""
    query = (
        select(Device)
        .join(Device.user)
        .options(contains_eager(Device.user))
        .where(User.name.in_(people), Device.state != DeviceState.REVOKED)
    )
    return (await session.scalars(query)).all()


async def policy(session: AsyncSession, name: str) -> Policy | None:
    return await session.scalar(select(Policy).options(*_WHOLE).where(Policy.name == name))


async def lock_policy(session: AsyncSession, name: str) -> int | None:
    """Lock the policy and return its version."""
    return await session.scalar(select(Policy.version).where(Policy.name == name).with_for_update())


async def user(session: AsyncSession, name: str) -> User | None:
    return await session.scalar(select(User).where(User.name == name))


async def resources_named(session: AsyncSession, names: Sequence[str]) -> dict[str, Resource]:
    found = await session.scalars(select(Resource).where(Resource.name.in_(names)))
    return {resource.name: resource for resource in found}


BY_RESOURCE_NAME = Order(Resource.name, str)
REACHED_ORDERS = {"name": BY_RESOURCE_NAME, "fqdn": Order(Resource.fqdn, str)}
BY_LOGIN_NAME = Order(User.name, str)
WITH_ACCESS_ORDERS = {
    "name": BY_LOGIN_NAME,
    "display_name": Order(folded(func.coalesce(User.display_name, User.name)), str),
}


async def resources_of_person(session: AsyncSession, user_id: int, sort: Sort) -> list[Resource]:
    """The resources that a policy names for the person."""
    policies = select(Policy.id).where(concerns(user_id))
    named = PolicyResource.policy_id.in_(policies)
    query = select(Resource).where(Resource.id.in_(select(PolicyResource.resource_id).where(named)))
    return await sort.entities(session, query)


async def people_of_resource(session: AsyncSession, resource_id: int, sort: Sort) -> list[User]:
    """The people for whom a policy names the resource."""
    policies = select(PolicyResource.policy_id).where(PolicyResource.resource_id == resource_id)
    own = select(Policy.user_id).where(Policy.id.in_(policies), Policy.user_id.is_not(None))
    in_groups = (
        select(GroupMember.user_id)
        .join(Policy, Policy.group_id == GroupMember.group_id)
        .where(Policy.id.in_(policies))
    )
    query = select(User).where(or_(User.id.in_(own), User.id.in_(in_groups)))
    return await sort.entities(session, query)


async def grants(
    session: AsyncSession, people: Collection[int], resources: Collection[int]
) -> list[tuple[int, int, Policy, str | None]]:
    """Each person and resource with each policy between them, and the group that it is for; by the policy's name."""
    query = (
        select(User.id, PolicyResource.resource_id, Policy, Group.name)
        .select_from(User)
        .join(Policy, concerns(User.id))
        .join(PolicyResource, PolicyResource.policy_id == Policy.id)
        .outerjoin(Group, Group.id == Policy.group_id)
        .where(User.id.in_(people), PolicyResource.resource_id.in_(resources))
        .order_by(by_code_point(Policy.name))
    )
    return [(row[0], row[1], row[2], row[3]) for row in await session.execute(query)]


@dataclass(frozen=True, slots=True)
class Traced:
    """The facts for the decision about one device and a name."""

    device: Device
    resource: Resource | None
    policies: str | None


async def read_traced(
    session: AsyncSession, user: str, fqdn: str, device_id: uuid.UUID | None, at: datetime.datetime | None
) -> Sequence[Traced]:
    """The person's devices, or only the given one if it is the person's; as they were at `at`."""
    query = (
        select(Device, Resource, POLICIES)
        .join(Device.user)
        .options(contains_eager(Device.user))
        .outerjoin(Resource, Resource.id == _select_resource(fqdn))
        .where(User.name == user)
        .order_by(Device.created_at)
    )
    if device_id is not None:
        query = query.where(Device.id == device_id)
    return [Traced(*row) for row in await session.execute(as_of(query, at, user))]


_NAMED_AT_MOST = 5


async def names_beginning(session: AsyncSession, label: str, at: datetime.datetime | None) -> Sequence[str]:
    """The names of resources at `at` with this first label; the first five, if there are more."""
    first = func.split_part(Resource.fqdn, ".", 1) == label
    query = select(Resource.fqdn).where(first).order_by(by_code_point(Resource.fqdn)).limit(_NAMED_AT_MOST)
    return (await session.scalars(as_of(query, at, ""))).all()


async def user_at(session: AsyncSession, name: str, at: datetime.datetime | None) -> int | None:
    """The person's id at `at`."""
    return await session.scalar(as_of(select(User.id).where(User.name == name), at, name))


async def gateways_of(
    session: AsyncSession, fqdn: str, at: datetime.datetime | None
) -> Sequence[tuple[ResourceGateway, bool]]:
    """The resource's gateways in order at `at`, each with its row loaded and whether its owner had reached it."""
    query = (
        select(ResourceGateway, func.coalesce(GatewayHealth.online, false()))
        .join(ResourceGateway.gateway)
        .options(contains_eager(ResourceGateway.gateway))
        .outerjoin(GatewayHealth, GatewayHealth.gateway_id == ResourceGateway.gateway_id)
        .where(ResourceGateway.resource_id == _select_resource(fqdn))
        .order_by(ResourceGateway.position)
    )
    return [(row[0], row[1]) for row in await session.execute(as_of(query, at, ""))]


def _select_resource(fqdn: str) -> ScalarSelect[int]:
    return select_matching(bindparam("asked_names", candidates(fqdn), type_=ARRAY(Text)))
