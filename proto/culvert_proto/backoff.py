"""Exponential backoff: the wait before an attempt is repeated. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# A week of failures must not overflow a float.
_EXPONENT_MAX = 32


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait is `first` after a failure, twice as long after each further failure in a row, and `longest` at most. Both
    in seconds.
    """

    first: float
    longest: float

    def after(self, failures: int) -> float:
        """Seconds until the next attempt, after this many failures in a row; 0 after none."""
        if failures == 0:
            return 0.0
        return min(self.longest, self.first * 2.0 ** min(failures - 1, _EXPONENT_MAX))

    def spread(self, failures: int, chance: float) -> float:
        """As `after`, in the upper half of it: programs that failed together do not come back together.

        `chance`: uniform in [0, 1).
        """
        return self.after(failures) * (0.5 + chance / 2)
