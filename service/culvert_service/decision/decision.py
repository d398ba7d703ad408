"""The decision: may this device open this name now, until when, and through which gateways? Pure.

    device ─► name ─► policies ─► gateways ─► Permit
      │        │         │           │
    revoked  unknown   none, or    none is
                       conditions  online

One permitting policy is enough; of several, the one that permits for longest counts. If none permits, the denial names
the policy that the person can satisfy most easily (EASE), and of its failed conditions the hardest one: a code is useless
at the wrong hour. All steps are kept for the access check.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from culvert_proto import Reason

from culvert_service.decision.conditions import EASE, Asker, Check, Conditions, Denial, Fails, examine
from culvert_service.decision.nearness import Distance, near

_SCORE_BITS = 64


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy that names the resource, and the person or one of the person's groups."""

    name: str
    enabled: bool
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class AskedResource:
    """The resource that carries the asked name, and the policies about it and the person."""

    fqdn: str
    owner: str
    policies: tuple[Policy, ...]


@dataclass(frozen=True, slots=True)
class GatewayFact:
    name: str
    online: bool
    draining: bool = False
    # The weight, if the resource's gateways have weights.
    weight: int | None = None
    # The distance that the device has measured, if any.
    distance: Distance | None = None

    def obstacle(self) -> Denial | None:
        if not self.online:
            return Denial(Reason.GATEWAY_DOWN, {"gateway": self.name})
        return Denial(Reason.GATEWAY_DRAINING, {"gateway": self.name}) if self.draining else None


@dataclass(frozen=True, slots=True)
class Permit:
    """Gateways to try, in this order; never empty. The permission ends at `until`.

    `code_seconds`: the age of the code at which it ends, if a policy ends it before the code itself ends. 0: it ends for
    another reason. `policies`: the names of all that permit.
    """

    gateways: tuple[str, ...]
    until: datetime.datetime
    code_seconds: int = 0
    policies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Permission:
    """As in Permit."""

    until: datetime.datetime
    code_seconds: int
    policies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccessStep:
    """A step of the decision: its subject (a device, a policy, …), and the obstacle there, if any."""

    check: Check
    subject: str
    denial: Denial | None = None
    until: datetime.datetime | None = None
    # A gateway's weight, if it has one.
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Permit | Denial
    steps: tuple[AccessStep, ...]

    @property
    def policy(self) -> str | None:
        """The policy whose condition caused the denial."""
        told = (step.subject for step in self.steps if step.denial is self.verdict and step.check in EASE)
        return next(told, None)


def decide(
    asker: Asker,
    name: str,
    target: AskedResource | None,
    gateways: Sequence[GatewayFact],
    pinned: str,
    now: datetime.datetime,
) -> Decision:
    """`gateways`: those that serve the target, in order. With weights, each device has its own order, near ones first.
    A usable pinned gateway is the only one tried.
    """
    steps: list[AccessStep] = []
    verdict = _walk(steps, asker, name, target, gateways, pinned, now)
    return Decision(verdict, tuple(steps))


def _walk(
    steps: list[AccessStep],
    asker: Asker,
    name: str,
    target: AskedResource | None,
    gateways: Sequence[GatewayFact],
    pinned: str,
    now: datetime.datetime,
) -> Permit | Denial:
    revoked = Denial(Reason.DEVICE_REVOKED, {"device": asker.device}) if asker.revoked else None
    steps.append(AccessStep(Check.DEVICE, asker.device, revoked))
    if revoked is not None:
        return revoked
    if target is None:
        unknown = Denial(Reason.NAME_UNKNOWN, {"name": name})
        steps.append(AccessStep(Check.NAME, name, unknown))
        return unknown
    steps.append(AccessStep(Check.NAME, name))
    permitted = _permit_until(steps, asker, target, now)
    if isinstance(permitted, Denial):
        return permitted
    serving = in_turn(asker.device_id, gateways, pinned)
    steps += [AccessStep(Check.GATEWAY, it.name, it.obstacle(), weight=it.weight) for it in serving]
    usable = tuple(gateway.name for gateway in serving if gateway.obstacle() is None)
    if usable:
        return Permit(usable, permitted.until, permitted.code_seconds, permitted.policies)
    none = Denial(Reason.GATEWAY_DOWN, {"gateway": f"for {target.fqdn}"})
    return next((obstacle for gateway in serving if (obstacle := gateway.obstacle())), none)


def in_turn(device_id: uuid.UUID, gateways: Sequence[GatewayFact], pinned: str = "") -> list[GatewayFact]:
    """The gateways in the order in which this device tries them."""
    chosen = [gateway for gateway in gateways if gateway.name == pinned]
    if any(gateway.obstacle() is None for gateway in chosen):
        return chosen
    others = [gateway for gateway in gateways if gateway.name != pinned]
    if any(gateway.weight for gateway in others):
        able = [it for it in others if it.weight and it.obstacle() is None]
        preferred = near({it.name: it.distance for it in able if it.distance})
        others.sort(
            key=lambda it: (it.name in preferred, _score(device_id, it.name, it.weight or 0)),
            reverse=True,
        )
    return chosen + others


def _permit_until(
    steps: list[AccessStep], asker: Asker, target: AskedResource, now: datetime.datetime
) -> _Permission | Denial:
    nobody = Denial(Reason.NO_POLICY, {"user": asker.user, "name": target.fqdn, "owner": target.owner})
    permits: list[tuple[datetime.datetime, int]] = []
    used: list[str] = []
    obstacles: list[Fails] = []
    for policy in target.policies:
        steps.append(AccessStep(Check.POLICY, policy.name, None if policy.enabled else nobody))
        if not policy.enabled:
            continue
        until, failures = datetime.datetime.max.replace(tzinfo=datetime.UTC), list[Fails]()
        code_until: datetime.datetime | None = None
        for found in examine(policy.conditions, asker, target.fqdn, target.owner, now):
            if isinstance(found, Fails):
                failures.append(found)
                steps.append(AccessStep(found.check, policy.name, found.denial))
            else:
                until = min(until, found.until or until)
                code_until = found.until if found.check is Check.CODE else code_until
                steps.append(AccessStep(found.check, policy.name, until=found.until))
        if failures:
            obstacles.append(max(failures, key=_hardness))
        else:
            ends_by_age = code_until == until and until != asker.code_valid_until
            permits.append((until, (policy.conditions.code_max_age_seconds or 0) if ends_by_age else 0))
            used.append(policy.name)
    if permits:
        return _Permission(*max(permits), tuple(used))
    if not obstacles:
        if not target.policies:
            steps.append(AccessStep(Check.POLICY, "", nobody))
        return nobody
    return min(obstacles, key=lambda one: (_hardness(one), one.again or now)).denial


def _hardness(obstacle: Fails) -> int:
    return EASE.index(obstacle.check)


def _score(device: uuid.UUID, gateway: str, weight: int) -> float:
    """The gateway with the highest score is first; one of weight 0 only where no other can be used.

    Weighted rendezvous hashing (Schindelhauer and Schomaker, Weighted Distributed Hash Tables, 2005, the logarithmic
    method): each device orders the gateways by a number of its own for each, so that it always comes to the same one. Over
    many devices each gateway is first for its share of the weights. When a gateway comes or goes, only the devices move
    that it wins or loses.
    """
    drawn = int.from_bytes(hashlib.sha256(device.bytes + gateway.encode()).digest()[: _SCORE_BITS // 8])
    return -weight / math.log((drawn + 0.5) / 2**_SCORE_BITS)
