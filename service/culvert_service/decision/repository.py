"""The policies between a device and a resource, as part of any statement that has both."""

from __future__ import annotations

from typing import Any

from culvert_db import Device, GroupMember, PolicyResource, PolicyVersion, Resource
from culvert_db import Policy as PolicyRow
from sqlalchemy import ColumnElement, Text, cast, exists, func, or_, select


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
