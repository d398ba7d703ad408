"""A replay window for each controller's calls: each is taken once, as an ESP packet is (RFC 4303, section 3.4.3). Pure.

A process has its own holder name and numbers its calls from 1. So nothing depends on clocks, and a restart begins anew on
both sides: no later process opens what was sealed for this one.
"""

from __future__ import annotations

from dataclasses import dataclass

# The processes whose windows are kept, some hundred bytes each: those of the latest calls. A call of an earlier process
# would be taken once more; only a program that may write to the database could send it, after as many starts.
PROCESSES_MAX = 1024
# Notifications from several connections may be reordered, at most by the number of a caller's concurrent calls.
WINDOW = 1024


@dataclass(slots=True)
class _Taken:
    """Bit n of `bits`: the call with the number `highest - n` was taken."""

    highest: int = 0
    bits: int = 0


class Replay:
    def __init__(self) -> None:
        # In the order of the last calls.
        self._of: dict[str, _Taken] = {}

    def __len__(self) -> int:
        return len(self._of)

    def take(self, holder: str, number: int) -> bool:
        """Whether this call has not been taken before. The caller has opened its seal."""
        taken = self._of[holder] = self._of.pop(holder, None) or _Taken()
        if len(self._of) > PROCESSES_MAX:
            del self._of[next(iter(self._of))]
        if number > taken.highest:
            taken.bits = (taken.bits << min(number - taken.highest, WINDOW) | 1) & ((1 << WINDOW) - 1)
            taken.highest = number
            return True
        behind = taken.highest - number
        if behind >= WINDOW or taken.bits >> behind & 1:
            return False
        taken.bits |= 1 << behind
        return True
