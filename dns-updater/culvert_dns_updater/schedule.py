"""When to look again: at the poll interval while all is well, with exponential backoff and jitter after a failure. Pure."""

from __future__ import annotations

from culvert_proto.backoff import Backoff

# Our tunables, in seconds.
RETRY = Backoff(1.0, 300.0)
# Times as long as a pass has taken, before the zone is read again although nothing has changed here.
_RESTS = 10


def wait(failures: int, poll: float, chance: float) -> float:
    """Seconds until the next pass.

    `failures`: passes that have failed in a row. `chance`: uniform in [0, 1); spreads retries of several updaters.
    """
    return poll if failures == 0 else RETRY.spread(failures, chance)


def poll_after(poll: float, took: float) -> float:
    """Seconds until a zone is polled whose pass took so many: a large one is mostly left alone."""
    return max(poll, _RESTS * took)
