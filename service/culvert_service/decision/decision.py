"""The one decision: may this device open this name now, and through which gateways. Pure.

The order of the checks is the order of what the person can do about them: a code helps nobody whom no policy lets in.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field

from culvert_proto import CulvertError, Reason


@dataclass(frozen=True, slots=True)
class Asker:
    """Device and person behind a call."""

    device: str
    user: str
    revoked: bool
    code_valid_until: datetime.datetime | None


@dataclass(frozen=True, slots=True)
class Target:
    """The resource that carries the asked name, and whether the person is on its list."""

    fqdn: str
    owner: str
    granted: bool


@dataclass(frozen=True, slots=True)
class GatewayFact:
    name: str
    online: bool


@dataclass(frozen=True, slots=True)
class Permit:
    """Gateways to try, in this order; never empty."""

    gateways: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Denial:
    reason: Reason
    fields: dict[str, object] = field(default_factory=dict[str, object])

    def error(self) -> CulvertError:
        return CulvertError(self.reason, **self.fields)


def decide(
    asker: Asker,
    name: str,
    target: Target | None,
    gateways: Sequence[GatewayFact],
    pinned: str,
    now: datetime.datetime,
) -> Permit | Denial:
    """`gateways` are those that serve the target, in order. A pinned one that serves it is the only one tried."""
    if asker.revoked:
        return Denial(Reason.DEVICE_REVOKED, {"device": asker.device})
    if target is None:
        return Denial(Reason.NAME_UNKNOWN, {"name": name})
    if not target.granted:
        return Denial(Reason.NO_POLICY, {"user": asker.user, "name": target.fqdn, "owner": target.owner})
    if asker.code_valid_until is None or asker.code_valid_until <= now:
        return Denial(Reason.CODE_NEEDED)
    serving = [gateway for gateway in gateways if gateway.name == pinned] or list(gateways)
    online = tuple(gateway.name for gateway in serving if gateway.online)
    if not online:
        return Denial(Reason.GATEWAY_DOWN, {"gateway": serving[0].name if serving else f"for {target.fqdn}"})
    return Permit(online)
