"""Which gateways are gone: not those whose link has only just broken, nor those not reached since the start. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Our tunables, in seconds after the last answer. A link that breaks and comes back meanwhile moves nothing.
GONE_SECONDS = 2.0
# After its owner, another controller, was last seen to call it online: the owner has waited already.
TOLD_SECONDS = 0.5
# A gateway that was never reached may still live: its tunnels may be well.
UNKNOWN_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Seen:
    """Whether a gateway answers, and when it last did; None: never. `ours` when this controller asks it itself."""

    alive: bool
    answered_at: float | None
    ours: bool = True


class Outages:
    """Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._unknown_since: dict[str, float] = {}

    def gone(self, gateways: Mapping[str, Seen], now: float) -> frozenset[str]:
        unknown = (name for name, seen in gateways.items() if seen.answered_at is None)
        self._unknown_since = {name: self._unknown_since.get(name, now) for name in unknown}
        return frozenset(
            name for name, seen in gateways.items() if not seen.alive and self._over(name, seen, now)
        )

    def _over(self, name: str, seen: Seen, now: float) -> bool:
        if seen.answered_at is None:
            return now - self._unknown_since[name] >= UNKNOWN_SECONDS
        return now - seen.answered_at >= (GONE_SECONDS if seen.ours else TOLD_SECONDS)
