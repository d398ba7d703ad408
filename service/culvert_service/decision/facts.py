"""The policies between a device and a resource, as part of whatever statement has both; and their parsing."""

from __future__ import annotations

import functools
import json
import logging
from typing import Any

from culvert_db import Device, DeviceState, GroupMember, PolicyResource, PolicyVersion, Resource, User
from culvert_db import Policy as PolicyRow
from pydantic import ValidationError
from sqlalchemy import ColumnElement, Text, cast, exists, func, or_, select

from culvert_service.decision.conditions import Asker, Conditions
from culvert_service.decision.decision import AskedResource, Policy

_log = logging.getLogger(__name__)


def concerns(user_id: ColumnElement[int] | Any) -> ColumnElement[bool]:
    """Whether a policy is the person's, or a group's of which the person is a member."""
    member = (
        exists()
        .where(GroupMember.group_id == PolicyRow.group_id, GroupMember.user_id == user_id)
        # The person is that of the statement around, however deep this stands in it; not anyone who has a device.
        .correlate_except(GroupMember)
    )
    return or_(PolicyRow.user_id == user_id, member)


_SHOWN = func.jsonb_build_object(
    "name", PolicyRow.name, "enabled", PolicyRow.enabled, "conditions", PolicyRow.conditions
)
# For a statement that has Device and Resource: what `parse` takes; null when there is none.
POLICIES = (
    select(cast(func.jsonb_agg(_SHOWN), Text))
    .select_from(PolicyRow)
    .join(PolicyResource, PolicyResource.policy_id == PolicyRow.id)
    .where(PolicyResource.resource_id == Resource.id, concerns(Device.user_id))
    .correlate(Device, Resource)
    .scalar_subquery()
)
# Read in the same statement: what has changed since then has another.
VERSION = select(PolicyVersion.version).scalar_subquery()


# Many devices share what few policies say: most openings find them parsed.
@functools.lru_cache(maxsize=4096)
def parse(found: str | None, *, approval: bool) -> tuple[Policy, ...]:
    """`approval`: every policy asks for an approved device. One with a condition that is not known here lets nobody in."""
    rows: list[dict[str, Any]] = json.loads(found) if found else []
    return tuple(sorted((_policy(row, approval) for row in rows), key=lambda policy: policy.name))


def target(resource: Resource, policies: str | None, *, approval: bool) -> AskedResource:
    return AskedResource(resource.fqdn, resource.owner, parse(policies, approval=approval))


def asker(device: Device, user: User, source: str | None) -> Asker:
    return Asker(
        device.name,
        user.name,
        device.state is DeviceState.REVOKED,
        device.state is DeviceState.APPROVED,
        device.code_proven_at,
        device.code_valid_until,
        source,
        # Not a fact of the device's own choosing, whatever it is called there.
        device.posture | {"client_version": device.client_version or ""},
        device.id,
    )


def _policy(row: dict[str, Any], approval: bool) -> Policy:
    stored: dict[str, Any] = row["conditions"]
    try:
        conditions = Conditions.model_validate(stored | {"device_approved": True} if approval else stored)
    except ValidationError:
        _log.exception("a policy cannot be read", extra={"policy": row["name"]})
        return Policy(row["name"], enabled=False, conditions=Conditions())
    return Policy(row["name"], row["enabled"], conditions)
