"""Locks and delays after wrong sign-ins. Pure.

`Guesses` counts wrong sign-ins at one name from one prefix, and locks the name for that prefix only. `Codes` counts wrong
codes after the right password, from any address, and delays the account's next code. A stranger without the password
cannot cause that delay.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

GUESSES = 5
LOCK = datetime.timedelta(minutes=1)
# Guesses are forgotten after this long without another one.
FORGET = datetime.timedelta(hours=1)

# Three of a million codes are valid at a time. The longest delay allows 96 guesses a day: one hit in ten years.
CODE_GUESSES = 5
CODE_DELAY = datetime.timedelta(seconds=5)
CODE_DELAY_MAX = datetime.timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Guesses:
    failures: int = 0
    locked_until: datetime.datetime | None = None

    def locked_seconds(self, now: datetime.datetime) -> int:
        """Seconds until a guess is accepted again; 0 when one is accepted now."""
        return _seconds(self.locked_until, now)

    def with_failure(self, now: datetime.datetime, at_once: int = GUESSES) -> Guesses:
        """Every `at_once`-th failure locks. Each lock is twice as long as the one before, up to FORGET."""
        failures = self.failures + 1
        if failures % at_once:
            return Guesses(failures)
        return Guesses(failures, now + min(LOCK * 2 ** min(failures // at_once - 1, 10), FORGET))


@dataclass(frozen=True, slots=True)
class Codes:
    failures: int = 0
    locked_until: datetime.datetime | None = None

    def locked_seconds(self, now: datetime.datetime) -> int:
        """Seconds until a code is accepted again; 0 when one is accepted now."""
        return _seconds(self.locked_until, now)

    def with_failure(self, now: datetime.datetime) -> Codes:
        """From the CODE_GUESSES-th on, each failure delays the next code. The delay doubles up to CODE_DELAY_MAX."""
        failures = self.failures + 1
        if failures < CODE_GUESSES:
            return Codes(failures)
        delay = min(CODE_DELAY * 2 ** min(failures - CODE_GUESSES, 10), CODE_DELAY_MAX)
        return Codes(failures, now + delay)


def _seconds(until: datetime.datetime | None, now: datetime.datetime) -> int:
    if until is None or until <= now:
        return 0
    return max(1, round((until - now).total_seconds()))
