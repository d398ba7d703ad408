"""The facts of a decision, from the rows of a device and a resource and from their policies."""

from __future__ import annotations

import functools
import json
import logging
from typing import Any

from culvert_db import Device, DeviceState, Resource, User
from pydantic import ValidationError

from culvert_service.decision.conditions import Asker, Conditions
from culvert_service.decision.decision import AskedResource, Policy

_log = logging.getLogger(__name__)


# Cached, because many devices share few policies.
@functools.lru_cache(maxsize=4096)
def parse(found: str | None, *, approval: bool) -> tuple[Policy, ...]:
    """`approval`: every policy needs an approved device. A policy with an unknown condition is disabled."""
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
        # Overrides a reported fact of the same name.
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
