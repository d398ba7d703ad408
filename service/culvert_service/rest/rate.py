"""Rate limits: a token bucket for each caller. Pure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from culvert_proto.token_bucket import TokenBucket

from culvert_service.rest.prefix import limit_keys

# Full buckets are removed; the search for them runs after each this many new buckets.
_SWEEP = 4096
# The most buckets that are kept. With more callers, the buckets of those that have asked least are forgotten.
MOST = 65_536
# A /48 has the budget of four /64.
_WIDE = 4


class Limiter:
    """`now` is in seconds of a clock that does not jump."""

    def __init__(self, bucket: TokenBucket) -> None:
        self._bucket = bucket
        # When each bucket will be full again.
        self._full_at: dict[str, float] = {}
        self._sweep_at = _SWEEP

    def wait(self, who: str, now: float) -> int:
        """The whole seconds until a call of `who` would be served; 0 when it would be served now."""
        return math.ceil(self._bucket.wait(self._full_at.get(who, now), now))

    def take(self, who: str, now: float) -> int:
        """As `wait`, and counts the call when it is served."""
        if seconds := self.wait(who, now):
            return seconds
        self._full_at[who] = self._bucket.take(self._full_at.get(who, now), now)
        if len(self._full_at) > self._sweep_at:
            self._sweep(now)
        return 0

    def _sweep(self, now: float) -> None:
        kept = {who: at for who, at in self._full_at.items() if at > now}
        if len(kept) > MOST - _SWEEP:
            kept = dict(heapq.nlargest(MOST - _SWEEP, kept.items(), key=lambda one: one[1]))
        self._full_at = kept
        self._sweep_at = len(kept) + _SWEEP


class AddressLimiter:
    """A bucket for each IPv4 address and each IPv6 /64, and a larger one for each /48."""

    def __init__(self, bucket: TokenBucket) -> None:
        wide = TokenBucket(bucket.per_second * _WIDE, bucket.burst * _WIDE)
        self._limiters: Sequence[Limiter] = (Limiter(bucket), Limiter(wide))

    def take(self, address: str | None, now: float) -> int:
        """As `Limiter.take`. A call that one bucket refuses takes nothing from the other bucket."""
        pairs = list(zip(self._limiters, limit_keys(address), strict=False))
        if seconds := max(limiter.wait(key, now) for limiter, key in pairs):
            return seconds
        return max(limiter.take(key, now) for limiter, key in pairs)
