"""The rate at which changed settings are restored, and whether another program fights for them. Pure.

   put back 10 times at once ──► from then on once a minute, and the person is told
        ▲                              │ the settings have stood for five minutes
        └──────────────────────────────┘

A computer that moves through many networks has each time to write a file again, and that is no fight: the limit is for a
time, not for the daemon's life.
"""

from __future__ import annotations

# Our tunables. The times are in seconds.
AT_ONCE = 10
REGAINED_EVERY = 60.0
CALM = 300.0


class Contest:
    """Each method takes the loop's time in seconds."""

    def __init__(self) -> None:
        self._left, self._counted_at, self._undone_at = float(AT_ONCE), 0.0, 0.0
        self._was_put_back = False
        self.is_fought = False
        """Another program changes the settings faster than they are put back."""

    def may_put_back(self, now: float) -> bool:
        """Call this when the settings were found changed; True counts as one time that they are put back. Vain tries are
        limited like others, and are no fight."""
        self._left = min(AT_ONCE, self._left + (now - self._counted_at) / REGAINED_EVERY)
        self._counted_at = self._undone_at = now
        if self._left < 1:
            self.is_fought = self.is_fought or self._was_put_back
            return False
        self._left -= 1
        self._was_put_back = False
        return True

    def put_back(self) -> None:
        """Call this when that has not failed."""
        self._was_put_back = True

    def stand(self, now: float) -> None:
        """The settings were found as they should be."""
        if now - self._undone_at >= CALM:
            self.is_fought = False
