"""What a caller of the REST API may do. Pure.

An area is the first part of a path: `gateways`, `resources`, `users`, … Reading is GET and HEAD, writing is the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from culvert_db import Role
from culvert_proto import CulvertError, Reason

AREAS = (
    "access",
    "audit",
    "controller",
    "devices",
    "dns",
    "gateways",
    "groups",
    "invitations",
    "metrics",
    "policies",
    "resources",
    "site-tunnels",
    "tunnels",
    "users",
)
# Whoever may write here could give themselves the rest.
OWNERS_AREAS = ("admins", "tokens")
SCOPES = ("read", "write", *(f"{area}:{verb}" for area in AREAS for verb in ("read", "write")))

_READING = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class ByRole:
    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class ByScopes:
    """An API token. Writing includes reading."""

    name: str
    scopes: Sequence[str]


Caller = ByRole | ByScopes


def check(caller: Caller, method: str, area: str) -> None:
    """Raises CulvertError NOT_PERMITTED."""
    reads = method in _READING
    if needed := _lacking(caller, reads, area):
        verb = "read" if reads else "change"
        raise CulvertError(Reason.NOT_PERMITTED, who=caller.name, verb=verb, what=area, needed=needed)


def _lacking(caller: Caller, reads: bool, area: str) -> str | None:
    if isinstance(caller, ByRole):
        if caller.role is Role.OWNER or reads:
            return None
        if area in OWNERS_AREAS:
            return "the role owner"
        return None if caller.role is Role.ADMIN else "the role admin or owner"
    if area in OWNERS_AREAS:
        return "the role owner"
    verbs = ("read", "write") if reads else ("write",)
    enough = {f"{prefix}{verb}" for verb in verbs for prefix in ("", f"{area}:")}
    return None if enough.intersection(caller.scopes) else f"the scope {area}:{verbs[0]}"
