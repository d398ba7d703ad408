"""Which refusals the log is told of: not each of a loop's, and not all of a caller's that asks for ever. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from culvert_service.rest.prefix import limit_keys
from culvert_service.rest.rate import AddressLimiter, Limiter, Rate

# Of one caller: what it may be refused at once is all told, as when twenty names ask for a code.
_LINES = Rate(per_second=0.1, burst=32)
# Of all strangers: 17,280 lines a day at most, however many addresses they have.
_STRANGERS_LINES = Rate(per_second=0.2, burst=256)
_FOLD_SECONDS = 60.0
_SWEEP = 4096
# Callers, and kinds of refusal of each, that are counted one by one; the others are counted together.
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
    """How many refusals were left out: of each caller, and of each action and reason."""

    callers: Mapping[str, int]
    kinds: Mapping[str, int]


class Repeats:
    """`now` is in seconds of a clock that does not jump. What is left out is counted once: in the caller's next line that
    is told, or in a summary.
    """

    def __init__(self) -> None:
        self._lines = Limiter(_LINES)
        self._addresses = AddressLimiter(_LINES)
        self._strangers = Limiter(_STRANGERS_LINES)
        self._told_at: dict[tuple[str, What], float] = {}
        self._left_out: dict[str, _LeftOut] = {}
        self._sweep_at = _SWEEP

    def tell(self, who: str, what: What, now: float) -> int | None:
        """How many of theirs were left out since the last that was told; None when this one is to be left out too."""
        if self._repeated(who, what, now) or self._lines.take(who, now):
            return self._leave_out(who, what, now)
        return self._tell(who, what, now)

    def tell_stranger(self, address: str | None, what: What, now: float) -> int | None:
        """For whoever has no name: an IPv6 /64 is one caller, and a /48 has what four have. Repetitions are told within
        that, because each may be a guess.
        """
        who = limit_keys(address)[0]
        if self._strangers.wait(OTHERS, now) or self._addresses.take(address, now):
            return self._leave_out(who, what, now)
        self._strangers.take(OTHERS, now)
        return self._tell(who, what, now)

    def summary(self, until: float) -> Summary | None:
        """Of what has been left out since `until` or before, which then counts as told; None when there is nothing."""
        told = {who: it for who, it in self._left_out.items() if it.since <= until}
        if not told:
            return None
        kinds = Counter[str]()
        for who, left_out in told.items():
            del self._left_out[who]
            kinds.update(left_out.kinds)
        return Summary({who: it.kinds.total() for who, it in told.items()}, kinds)

    def _repeated(self, who: str, what: What, now: float) -> bool:
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
