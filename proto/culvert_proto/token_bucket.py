"""A token bucket whose whole state is the time at which it will be full again. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# Share of a token that may be missing: a rounding error of the clock is no excess.
_TOLERANCE = 1 / 1000


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """The limits: `burst` tokens when it is full, and `per_second` that come back.

    A bucket begins full, with any time that has passed. `now` is in seconds of a clock that does not jump.
    """

    per_second: float
    burst: float

    def wait(self, full_at: float, now: float) -> float:
        """The seconds until there is a token; 0 when there is one now."""
        token, depth = 1 / self.per_second, self.burst / self.per_second
        missing = max(full_at, now) + token - now - depth
        return missing if missing > token * _TOLERANCE else 0.0

    def take(self, full_at: float, now: float) -> float:
        """Take a token. Returns the time at which the bucket will be full again."""
        return max(full_at, now) + 1 / self.per_second
