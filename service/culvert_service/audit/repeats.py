"""Decides which refusals get a line in the audit log, so that a caller in a loop cannot fill the log. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from culvert_proto.token_bucket import TokenBucket

from culvert_service.rest.prefix import limit_keys
from culvert_service.rest.rate import AddressLimiter, Limiter

# Lines of one caller. The burst lets a device whose twenty names all need a code get a line for each name.
_LINES = TokenBucket(per_second=0.1, burst=32)
# Lines of all strangers together: 17,280 a day at most, from any number of addresses.
_STRANGERS_LINES = TokenBucket(per_second=0.2, burst=256)
_FOLD_SECONDS = 60.0
_SWEEP = 4096
# The most callers, and the most kinds of refusal of one caller, with counts of their own. All others share one count.
CALLERS_MOST, _KINDS_MOST = 4096, 32
OTHERS = "others"

# Action, object, reason.
What = tuple[str, str, str]


@dataclass(slots=True)
class _LeftOut:
    since: float
    kinds: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of refusals that were left out: by caller, and by action and reason."""

    callers: Mapping[str, int]
    kinds: Mapping[str, int]


class Repeats:
    """`now` is in seconds of a monotonic clock. Each refusal that is left out is counted once: in the caller's next line,
    or in a summary.
    """

    def __init__(self) -> None:
        self._lines = Limiter(_LINES)
        self._addresses = AddressLimiter(_LINES)
        self._strangers = Limiter(_STRANGERS_LINES)
        self._told_at: dict[tuple[str, What], float] = {}
        self._left_out: dict[str, _LeftOut] = {}
        self._sweep_at = _SWEEP

    def tell(self, who: str, what: What, now: float) -> int | None:
        """The number of the caller's lines left out since the last written one; None if this line is left out too."""
        if self._is_repeated(who, what, now) or self._lines.take(who, now):
            return self._leave_out(who, what, now)
        return self._tell(who, what, now)

    def tell_stranger(self, address: str | None, what: What, now: float) -> int | None:
        """As `tell`, for a caller without a name. An IPv6 /64 is one caller, and a /48 has the budget of four.

        Repetitions within the budget are told, because each may be a guess.
        """
        who = limit_keys(address)[0]
        if self._strangers.wait(OTHERS, now) or self._addresses.take(address, now):
            return self._leave_out(who, what, now)
        self._strangers.take(OTHERS, now)
        return self._tell(who, what, now)

    def summary(self, until: float) -> Summary | None:
        """Take the counts of callers whose first refusal left out was at `until` or earlier; None when there are none."""
        told = {who: it for who, it in self._left_out.items() if it.since <= until}
        if not told:
            return None
        kinds = Counter[str]()
        for who, left_out in told.items():
            del self._left_out[who]
            kinds.update(left_out.kinds)
        return Summary({who: it.kinds.total() for who, it in told.items()}, kinds)

    def _is_repeated(self, who: str, what: What, now: float) -> bool:
        told_at = self._told_at.get((who, what))
        return told_at is not None and now < told_at + _FOLD_SECONDS

    def _tell(self, who: str, what: What, now: float) -> int:
        self._told_at[who, what] = now
        if len(self._told_at) > self._sweep_at:
            self._told_at = {key: at for key, at in self._told_at.items() if now < at + _FOLD_SECONDS}
            self._sweep_at = len(self._told_at) + _SWEEP
        left_out = self._left_out.pop(who, None)
        return left_out.kinds.total() if left_out else 0

    def _leave_out(self, who: str, what: What, now: float) -> None:
        if who not in self._left_out and len(self._left_out) >= CALLERS_MOST:
            who = OTHERS
        kinds = self._left_out.setdefault(who, _LeftOut(now)).kinds
        action, _, reason = what
        kind = f"{action} {reason}"
        kinds[kind if kind in kinds or len(kinds) < _KINDS_MOST else OTHERS] += 1
