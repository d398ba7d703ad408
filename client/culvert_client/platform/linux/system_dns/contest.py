"""Limits how often changed settings are restored, and detects a program that keeps changing them. Pure.

   restored 10 times at once ──► from then on once a minute, with a warning
        ▲                              │ the settings were unchanged for five minutes
        └──────────────────────────────┘

The count decreases with time, because a computer that moves through many networks has to write the file each time, which
is no fight.
"""

from __future__ import annotations

# Our tunables. The times are in seconds.
AT_ONCE = 10
REGAINED_EVERY = 60.0
CALM = 300.0


class Contest:
    """`now`: the loop's time in seconds."""

    def __init__(self) -> None:
        self._left, self._counted_at, self._undone_at = float(AT_ONCE), 0.0, 0.0
        self._was_put_back = False
        self.is_fought = False
        """Another program changes the settings faster than they are put back."""

    def may_put_back(self, now: float) -> bool:
        """Whether to restore settings that were found changed; True counts as one restoration. Failed ones count for the
        limit, but not as a fight."""
        self._left = min(AT_ONCE, self._left + (now - self._counted_at) / REGAINED_EVERY)
        self._counted_at = self._undone_at = now
        if self._left < 1:
            self.is_fought = self.is_fought or self._was_put_back
            return False
        self._left -= 1
        self._was_put_back = False
        return True

    def put_back(self) -> None:
        """Record a successful restoration."""
        self._was_put_back = True

    def stand(self, now: float) -> None:
        """Record that the settings were found unchanged."""
        if now - self._undone_at >= CALM:
            self.is_fought = False
