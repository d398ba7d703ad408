"""The path MTU to a gateway, found by probes (RFC 8899). Pure; times are `now` values, in seconds.

            some answered            longer ones failed PROBES times
  Base ──────────────► Searching ───────────────────────────────────► Complete ─┐ RAISE_EVERY: Searching
   ▲ │ none answered       ▲                                            │  ▲     │
   │ └──► Silent ──────────┘                                            │  └─────┘ in use, CONFIRM_EVERY: probed again
   └────────────────────────────────────────────────────────────────────┘
      its length failed PROBES times, and shorter ones did not: a black hole (section 4.3)

Only answers count. ICMP messages about too long packets do not, because anybody can forge them.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

from culvert_proto.contract import MTU_MIN

LENGTHS = (9216, 9000, 4470, 2048, 1500, 1492, 1480, 1460, 1440, 1420, 1400, 1380, 1360, 1320, 1280, 576, 100)
"""IP packets' lengths: jumbo frames, Ethernet, PPPoE, tunnels (IPv4, IPv6, WireGuard), mobile networks, IPv6's least."""
LEAST = MTU_MIN
"""The length that a path must let through (RFC 8200 section 5). A path that lets only shorter ones through is narrow."""
UNMEASURED = 1400
"""Our tunable: the longest datagram where nothing answers probes. Lines with PPPoE and most tunnels let it through."""
RAISE_EVERY = 600.0
"""PMTU_RAISE_TIMER (RFC 8899 section 5.1.1)."""
PROBES = 3
"""MAX_PROBES (section 5.1.2)."""
# Our tunables, in seconds.
CONFIRM_EVERY = 5.0
DOUBT_EVERY = 1.0
SILENT_EVERY = 30.0

# A search ends at this interval in bytes, ESP's alignment; and the most probes in a round.
_STEP, _AT_ONCE = 4, 8
_SHORT = min(LENGTHS)


class Phase(enum.Enum):
    BASE = enum.auto()
    SEARCHING = enum.auto()
    COMPLETE = enum.auto()
    SILENT = enum.auto()


class PathMtu:
    """The state of a path. `due`: when to send `probes`."""

    def __init__(self, now: float) -> None:
        self.begin(now)

    def begin(self, now: float) -> None:
        """Start again without knowledge."""
        self.phase, self.due = Phase.BASE, now
        # The longest answered length, and the shortest too long one.
        self._low, self._high = 0, max(LENGTHS) + 1
        self._failures = 0
        self._raise_at = self._confirmed_at = now

    @property
    def mtu(self) -> int:
        """The path MTU in bytes to use now."""
        match self.phase:
            case Phase.BASE:
                return LEAST
            case Phase.SILENT:
                return LEAST if self.is_narrow else max(LEAST, min(UNMEASURED, self._high - 1))
            case _:
                return max(self._low, LEAST)

    @property
    def reported(self) -> int:
        """The path MTU in bytes to report to the gateway, which clamps TCP's MSS to it in both directions."""
        return LEAST if self.phase is Phase.SILENT else self.mtu

    @property
    def is_settled(self) -> bool:
        """Whether no search is running."""
        return self.phase in (Phase.COMPLETE, Phase.SILENT)

    @property
    def is_narrow(self) -> bool:
        """Whether only packets shorter than LEAST pass the path or this computer's own link."""
        return 0 < self._low < LEAST or self._high <= LEAST

    def probes(self, now: float) -> tuple[int, ...]:
        """The lengths of the probes to send now, all at once."""
        if self.phase is Phase.COMPLETE and now >= self._raise_at:
            self.phase, self._high = Phase.SEARCHING, max(LENGTHS) + 1
        match self.phase:
            case Phase.SEARCHING:
                return (self._low, *self._longer())
            case Phase.COMPLETE:
                return (_SHORT, self._low)
            case _:
                return LENGTHS

    def take_results(self, answered: Collection[int], too_long: Collection[int], now: float) -> None:
        """Take the results of the probes, by length. `too_long`: lengths that this computer's own link refuses."""
        # A round with all lengths shows the link's present limit.
        every = self.phase in (Phase.BASE, Phase.SILENT)
        self._high = min((max(LENGTHS) + 1 if every else self._high, *too_long))
        best = max(answered, default=0)
        match self.phase:
            case Phase.SEARCHING:
                self._search(best, too_long, now)
            case Phase.COMPLETE:
                self._confirm(best, now)
            case _:
                self._restart(best, now)

    def note_use(self, now: float) -> None:
        """The path is in use: probe the length again every CONFIRM_EVERY."""
        if self.phase is Phase.COMPLETE:
            self.due = min(self.due, self._confirmed_at + CONFIRM_EVERY)

    def doubt(self, now: float) -> None:
        """An answer is missing: probe the length again, at most every DOUBT_EVERY."""
        if self.phase is Phase.COMPLETE:
            self.due = min(self.due, max(now, self._confirmed_at + DOUBT_EVERY))

    def _restart(self, best: int, now: float) -> None:
        self.due = now
        if best >= LEAST:
            self._low, self._failures, self.phase = best, 0, Phase.SEARCHING
            self._end_if_found(now)
            return
        self._failures += 1
        if self._failures < PROBES:
            return
        self._failures, self._low = 0, best
        # Probe a narrow path as often as a silent one.
        self.phase, self.due = Phase.SILENT, now + SILENT_EVERY

    def _search(self, best: int, too_long: Collection[int], now: float) -> None:
        self.due = now
        if best > self._low:
            self._low, self._failures = best, 0
        elif not too_long:
            self._failures += 1
        if self._failures == PROBES:
            self._failures = 0
            # Without an answer to any length, the result says nothing about this length.
            self._high = min(self._longer(), default=self._high) if best else self._low
        self._end_if_found(now)

    def _end_if_found(self, now: float) -> None:
        if self._high - self._low <= _STEP:
            self.phase, self._confirmed_at = Phase.COMPLETE, now
            self.due = self._raise_at = now + RAISE_EVERY

    def _confirm(self, best: int, now: float) -> None:
        self.due, self._confirmed_at = self._raise_at, now
        # A path without any answer is silent, which says nothing about lengths.
        self._failures = self._failures + 1 if 0 < best < self._low else 0
        if self._failures == PROBES:
            self.begin(now)
        elif self._failures:
            self.due = now

    def _longer(self) -> list[int]:
        """The next lengths to try above the longest answered one: usual lengths first, then those between."""
        usual = [it for it in LENGTHS if self._low < it < self._high]
        step = max(1, -(-(self._high - self._low) // _AT_ONCE))
        return usual or list(range(self._low + step, self._high, step))
