"""When a name that was guessed at is locked. Pure.

`Guesses` are wrong sign-ins from one prefix and lock the name for that prefix alone. `Codes` are wrong codes after the
right password: they slow the account down from wherever they come, and nobody without the password can make any.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

GUESSES = 5
LOCK = datetime.timedelta(minutes=1)
# After so long without a guess, the earlier ones do not count.
FORGET = datetime.timedelta(hours=1)

# Three of a million codes are good at a time: 96 guesses a day find one in ten years.
CODE_GUESSES = 5
CODE_DELAY = datetime.timedelta(seconds=5)
CODE_DELAY_MAX = datetime.timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Guesses:
    failures: int = 0
    locked_until: datetime.datetime | None = None

    def locked_seconds(self, now: datetime.datetime) -> int:
        """How long no guess is taken; 0 when one is."""
        return _seconds(self.locked_until, now)

    def failed(self, now: datetime.datetime, at_once: int = GUESSES) -> Guesses:
        """Locks at each multiple of `at_once`. Each lock after the first is twice as long, up to FORGET."""
        failures = self.failures + 1
        if failures % at_once:
            return Guesses(failures)
        return Guesses(failures, now + min(LOCK * 2 ** min(failures // at_once - 1, 10), FORGET))


@dataclass(frozen=True, slots=True)
class Codes:
    failures: int = 0
    locked_until: datetime.datetime | None = None

    def locked_seconds(self, now: datetime.datetime) -> int:
        """How long no code is taken; 0 when one is."""
        return _seconds(self.locked_until, now)

    def failed(self, now: datetime.datetime) -> Codes:
        """From the CODE_GUESSES-th on each delays the next, twice as long each time, up to CODE_DELAY_MAX."""
        failures = self.failures + 1
        if failures < CODE_GUESSES:
            return Codes(failures)
        delay = min(CODE_DELAY * 2 ** min(failures - CODE_GUESSES, 10), CODE_DELAY_MAX)
        return Codes(failures, now + delay)


def _seconds(until: datetime.datetime | None, now: datetime.datetime) -> int:
    if until is None or until <= now:
        return 0
    return max(1, round((until - now).total_seconds()))
