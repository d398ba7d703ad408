"""The policies between a device and a resource, as part of any statement that has both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from culvert_db import Device, GroupMember, PolicyResource, PolicyVersion, Resource
from culvert_db import Policy as PolicyRow
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Text,
    any_,
    cast,
    exists,
    func,
    or_,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncSession


def concerns(user_id: ColumnElement[int] | Any) -> ColumnElement[bool]:
    """Whether a policy is for the person, or for a group with the person as a member."""
    member = (
        exists()
        .where(GroupMember.group_id == PolicyRow.group_id, GroupMember.user_id == user_id)
        # The person is the enclosing statement's; without this, a nested FROM would match any person.
        .correlate_except(GroupMember)
    )
    return or_(PolicyRow.user_id == user_id, member)


_SHOWN = func.jsonb_build_object(
    "name", PolicyRow.name, "enabled", PolicyRow.enabled, "conditions", PolicyRow.conditions
)
# For a statement that has Device and Resource: what `facts.parse` takes; null when there is none.
POLICIES = (
    select(cast(func.jsonb_agg(_SHOWN), Text))
    .select_from(PolicyRow)
    .join(PolicyResource, PolicyResource.policy_id == PolicyRow.id)
    .where(PolicyResource.resource_id == Resource.id, concerns(Device.user_id))
    .correlate(Device, Resource)
    .scalar_subquery()
)
# The policy version, read in the same statement: each change of policies increases it.
VERSION = select(PolicyVersion.version).scalar_subquery()


async def list_reachable(session: AsyncSession, people: Collection[int]) -> dict[int, frozenset[int]]:
    """For each of these people the ids of the resources with an enabled policy; conditions are not considered.

    `session` must have one snapshot for all statements. People with equal policies share one set.
    """
    among = cast(list(people), ARRAY(BigInteger))
    # As `concerns`, but joined by indexes: it would compare each person with each policy.
    of_groups = (
        select(GroupMember.user_id, PolicyRow.id)
        .join(PolicyRow, PolicyRow.group_id == GroupMember.group_id)
        .where(GroupMember.user_id == any_(among), PolicyRow.enabled)
    )
    own = select(PolicyRow.user_id, PolicyRow.id).where(PolicyRow.user_id == any_(among), PolicyRow.enabled)
    policies: defaultdict[int, set[int]] = defaultdict(set)
    for person, policy in await session.execute(union_all(of_groups, own)):
        policies[person].add(policy)
    resources: defaultdict[int, set[int]] = defaultdict(set)
    leading = cast(list(set[int]().union(*policies.values())), ARRAY(BigInteger))
    leads = select(PolicyResource.policy_id, PolicyResource.resource_id)
    for policy, resource in await session.execute(leads.where(PolicyResource.policy_id == any_(leading))):
        resources[policy].add(resource)
    shared = {
        of_person: frozenset[int]().union(*(resources[it] for it in of_person))
        for of_person in map(frozenset, policies.values())
    }
    return {
        person: shared[frozenset(policies[person])] if person in policies else frozenset()
        for person in people
    }
