"""How often someone may ask: a token bucket for each. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Whoever has not asked for as long as a bucket takes to fill is forgotten; looked for when there are this many more.
_SWEEP = 4096


@dataclass(frozen=True, slots=True)
class Rate:
    per_second: float
    burst: float


class Limiter:
    """`now` is in seconds of a clock that does not jump."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        # When the bucket will be full, which is all that has to be kept of it.
        self._full_at: dict[str, float] = {}
        self._sweep_at = _SWEEP

    def take(self, who: str, now: float) -> int:
        """0 when it is served; otherwise the whole seconds after which it would be."""
        cost, depth = 1 / self._rate.per_second, self._rate.burst / self._rate.per_second
        full_at = max(self._full_at.get(who, now), now) + cost
        over = full_at - now - depth
        # A rounding error of the clock is no excess.
        if over > cost / 1000:
            return max(1, math.ceil(over))
        self._full_at[who] = full_at
        if len(self._full_at) > self._sweep_at:
            self._full_at = {other: at for other, at in self._full_at.items() if at > now}
            self._sweep_at = len(self._full_at) + _SWEEP
        return 0
