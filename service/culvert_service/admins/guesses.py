"""When a name that was guessed at is locked for an address. Pure."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

GUESSES = 5
LOCK = datetime.timedelta(minutes=1)
# After so long without a guess, the earlier ones do not count.
FORGET = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Guesses:
    failures: int = 0
    locked_until: datetime.datetime | None = None

    def locked_seconds(self, now: datetime.datetime) -> int:
        """How long no guess is taken; 0 when one is."""
        if self.locked_until is None or self.locked_until <= now:
            return 0
        return max(1, round((self.locked_until - now).total_seconds()))

    def failed(self, now: datetime.datetime) -> Guesses:
        """Each lock after the first is twice as long, up to FORGET."""
        failures = self.failures + 1
        if failures % GUESSES:
            return Guesses(failures)
        return Guesses(failures, now + min(LOCK * 2 ** min(failures // GUESSES - 1, 10), FORGET))
