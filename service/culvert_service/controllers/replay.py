"""A replay window for each controller's calls: each is taken once, as an ESP packet is (RFC 4303, section 3.4.3). Pure.

A process has its own holder name and numbers its calls from 1. So nothing depends on clocks, and a restart begins anew on
both sides: no later process opens what was sealed for this one.
"""

from __future__ import annotations

from dataclasses import dataclass

# Notifications from several connections may be reordered, at most by the number of a caller's concurrent calls.
WINDOW = 1024


@dataclass(slots=True)
class _Taken:
    """Bit n of `bits`: the call with the number `highest - n` was taken."""

    highest: int = 0
    bits: int = 0


class Replay:
    def __init__(self) -> None:
        self._of: dict[str, _Taken] = {}

    def take(self, holder: str, number: int) -> bool:
        """Whether this call has not been taken before. The caller has opened its seal."""
        taken = self._of.setdefault(holder, _Taken())
        if number > taken.highest:
            taken.bits = (taken.bits << min(number - taken.highest, WINDOW) | 1) & ((1 << WINDOW) - 1)
            taken.highest = number
            return True
        behind = taken.highest - number
        if behind >= WINDOW or taken.bits >> behind & 1:
            return False
        taken.bits |= 1 << behind
        return True
