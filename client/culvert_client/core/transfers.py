"""Finds out whether a call or a transfer runs, which a request for a code would disturb. Pure.

A call sends about 50 packets a second, an upload of 250 kbit/s 20, a download an acknowledgement for each second packet.
A person who reads pages stays below that over a minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from culvert_client.core.grant import TunnelId, Usage

# Our tunables: seconds to look back, and packets sent per second over that time.
SPAN = 60.0
RATE = 20.0
_LEAST = SPAN / 3
"""Seconds of knowledge below which nothing is said to run."""


class Transfers:
    """Times are `now` values of the client, in seconds."""

    def __init__(self) -> None:
        self._sent: dict[TunnelId, int] = {}
        self._total = 0
        self._samples: deque[tuple[float, int]] = deque()

    def take_counters(self, usage: Mapping[TunnelId, Usage], now: float) -> None:
        # A tunnel's counters begin again with its next installation.
        self._total += sum(max(0, it.packets_out - self._sent.get(name, 0)) for name, it in usage.items())
        self._sent = {name: it.packets_out for name, it in usage.items()}
        self._samples.append((now, self._total))
        while len(self._samples) > 2 and self._samples[1][0] <= now - SPAN:
            self._samples.popleft()

    def are_running(self, now: float) -> bool:
        """Whether packets have been sent at the rate of a call over the last minute."""
        if not self._samples or now - self._samples[0][0] < _LEAST:
            return False
        first, before = self._samples[0]
        return (self._total - before) / (now - first) >= RATE
