"""The time of the next pass: the poll interval, or exponential back-off with jitter after a failure. Pure."""

from __future__ import annotations

from culvert_proto.backoff import Backoff

# Our tunables, in seconds.
RETRY = Backoff(1.0, 300.0)
# A poll waits at least this many times a pass's duration.
_RESTS = 10


def wait(failures: int, poll: float, chance: float) -> float:
    """Seconds until the next pass.

    `failures`: passes that have failed in a row. `chance`: uniform in [0, 1); spreads retries of several updaters.
    """
    return poll if failures == 0 else RETRY.spread(failures, chance)


def poll_after(poll: float, took: float, before: float) -> float:
    """Seconds until the next poll; large zones are polled less often.

    `took`, `before`: durations of the last two passes. The shorter one counts: a pass that a name server, the database or a
    suspended computer has delayed says nothing about the zone.
    """
    return max(poll, _RESTS * min(took, before))
