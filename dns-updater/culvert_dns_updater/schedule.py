"""When to look again: at the poll interval while all is well, with exponential backoff and jitter after a failure. Pure."""

from __future__ import annotations

# Our tunables, in seconds.
FIRST_RETRY = 1.0
LONGEST_RETRY = 300.0
# Times as long as a pass has taken, before the zone is read again although nothing has changed here.
_RESTS = 10


def wait(failures: int, poll: float, chance: float) -> float:
    """Seconds until the next pass.

    `failures`: passes that have failed in a row. `chance`: uniform in [0, 1); spreads retries of several updaters over
    the upper half of the backoff.
    """
    return poll if failures == 0 else backoff(failures, chance)


def poll_after(poll: float, took: float) -> float:
    """Seconds until a zone is polled whose pass took so many: a large one is mostly left alone."""
    return max(poll, _RESTS * took)


def backoff(failures: int, chance: float) -> float:
    """Seconds until what has failed so often in a row is tried again."""
    # The exponent is bounded so that a week of failures does not overflow a float.
    longest = min(LONGEST_RETRY, FIRST_RETRY * 2.0 ** min(failures - 1, 32))
    return longest * (0.5 + chance / 2)
