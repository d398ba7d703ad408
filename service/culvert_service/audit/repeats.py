"""Which refusals the log is told of: not each of a loop's, and not all of a device's that asks for ever. Pure."""

from __future__ import annotations

from culvert_service.rest.rate import Limiter, Rate

# Of one device: what it may be refused at once is all told, as when twenty names ask for a code.
_LINES = Rate(per_second=0.1, burst=32)
_FOLD_SECONDS = 60.0
_SWEEP = 4096

# Action, object, reason.
What = tuple[str, str, str]


class Repeats:
    """`now` is in seconds of a clock that does not jump."""

    def __init__(self) -> None:
        self._lines = Limiter(_LINES)
        self._told_at: dict[tuple[str, What], float] = {}
        self._left_out: dict[str, int] = {}
        self._sweep_at = _SWEEP

    def tell(self, who: str, what: What, now: float) -> int | None:
        """How many of theirs were left out since the last that was told; None when this one is to be left out too."""
        told_at = self._told_at.get((who, what))
        repeats = told_at is not None and now < told_at + _FOLD_SECONDS
        if repeats or self._lines.take(who, now):
            self._left_out[who] = self._left_out.get(who, 0) + 1
            return None
        self._told_at[who, what] = now
        if len(self._told_at) > self._sweep_at:
            self._told_at = {key: at for key, at in self._told_at.items() if now < at + _FOLD_SECONDS}
            self._sweep_at = len(self._told_at) + _SWEEP
        return self._left_out.pop(who, 0)
