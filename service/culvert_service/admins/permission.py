"""The permissions of a caller of the REST API. Pure.

An area is the first part of a path: `gateways`, `resources`, `users`, … Reading is GET and HEAD, writing is the rest.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from culvert_db import Role
from culvert_proto import CulvertError, Reason

AREAS = (
    "access",
    "assertions",
    "audit",
    "controller",
    "devices",
    "dns",
    "gateway-enrolments",
    "gateway-keys",
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
# Write access to these areas would let an administrator grant themselves all others.
OWNERS_AREAS = ("admins", "tokens")
SCOPES = ("read", "write", *(f"{area}:{verb}" for area in AREAS for verb in ("read", "write")))

_READING = ("GET", "HEAD")
# The time for which a proof allows changes that would outlast a stolen session.
PROOF_LIFETIME = datetime.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class BySession:
    """`proven_at` is the time of the session's last proof. Signing in is a proof."""

    name: str
    role: Role
    proven_at: datetime.datetime


@dataclass(frozen=True, slots=True)
class ByRoot:
    """The token in the controller's state directory. Only root can read that directory, and root controls everything."""

    name: str


@dataclass(frozen=True, slots=True)
class ByScopes:
    """An API token. Writing includes reading."""

    name: str
    scopes: Sequence[str]


Caller = BySession | ByRoot | ByScopes


def check(caller: Caller, method: str, area: str) -> None:
    """Raises CulvertError NOT_PERMITTED."""
    reads = method in _READING
    if needed := _find_lacking(caller, reads, area):
        verb = "read" if reads else "change"
        raise CulvertError(Reason.NOT_PERMITTED, who=caller.name, verb=verb, what=area, needed=needed)


def check_proof(caller: Caller, now: datetime.datetime) -> None:
    """Only a session needs a fresh proof: an API token was made with a fresh proof, and root's token is root's.

    Raises CulvertError PROOF_NEEDED.
    """
    if isinstance(caller, BySession) and caller.proven_at <= now - PROOF_LIFETIME:
        minutes = int(PROOF_LIFETIME.total_seconds()) // 60
        raise CulvertError(Reason.PROOF_NEEDED, who=caller.name, minutes=minutes)


def _find_lacking(caller: Caller, reads: bool, area: str) -> str | None:
    if isinstance(caller, ByRoot):
        return None
    if isinstance(caller, BySession):
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
