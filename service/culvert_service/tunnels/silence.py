"""Findings from a gateway's counters: idle tunnels, and devices that do not answer any more. Pure.

A device is heard by packets that were authenticated and that its policy lets in. What is only sent to it says nothing of
it: where that goes on and nothing comes back, the device is asked to open the tunnel again (RFC 7296 section 2.4: only a
silent peer is probed), and the tunnel of one that does not even do that is closed. A device that only listens, and does
answer when it is asked, is asked less and less often.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

# Our tunables, in seconds. The device closes an idle tunnel by itself: the gateway's clock is behind its own.
IDLE_MARGIN = 3.0
SILENCE = 30.0
SILENCE_MAX = 1800.0
ANSWER = 10.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Packets so far, by SA: authenticated and let in; sealed."""

    heard: Mapping[int, int]
    sent: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Carried:
    """The tunnel that an SA belongs to."""

    tunnel_id: uuid.UUID
    device_id: uuid.UUID
    generation: int
    idle_seconds: int


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Tunnels that are to be closed, and whose devices are to be asked."""

    idle: frozenset[uuid.UUID] = frozenset()
    silent: frozenset[uuid.UUID] = frozenset()
    ask: frozenset[uuid.UUID] = frozenset()


@dataclass(slots=True)
class _Tunnel:
    active_at: float
    sas: set[int] = field(default_factory=set[int])
    unanswered_since: float | None = None
    asked_at: float | None = None
    patience: float = field(default_factory=lambda: SILENCE)

    def heard(self, now: float) -> None:
        self.active_at, self.patience = now, SILENCE
        self.unanswered_since = self.asked_at = None

    def sent(self, now: float) -> None:
        self.active_at = now
        if self.unanswered_since is None:
            self.unanswered_since = now

    def renewed(self) -> None:
        """Its device has called the controller."""
        if self.asked_at is not None:
            self.patience = min(2 * self.patience, SILENCE_MAX)
        self.unanswered_since = self.asked_at = None


class Silence:
    """The findings of one gateway, look by look. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._before = Counts({}, {})
        self._tunnels: dict[uuid.UUID, _Tunnel] = {}

    def look(self, counts: Counts, carried: Mapping[int, Carried], now: float) -> Verdicts:
        """SAs that are not in `carried` count for nothing yet."""
        sas: dict[uuid.UUID, set[int]] = defaultdict(set)
        idle_seconds: dict[uuid.UUID, int] = {}
        for sa in counts.heard.keys() | counts.sent.keys():
            if (of := carried.get(sa)) is not None:
                sas[of.tunnel_id].add(sa)
                idle_seconds[of.tunnel_id] = of.idle_seconds
        tunnels: dict[uuid.UUID, _Tunnel] = {}
        for tunnel_id, its in sas.items():
            tunnel = self._tunnels.get(tunnel_id) or _Tunnel(now, its)
            if its - tunnel.sas:
                tunnel.renewed()
            tunnel.sas = its
            if any(counts.heard.get(sa, 0) > self._before.heard.get(sa, 0) for sa in its):
                tunnel.heard(now)
            elif any(counts.sent.get(sa, 0) > self._before.sent.get(sa, 0) for sa in its):
                tunnel.sent(now)
            tunnels[tunnel_id] = tunnel
        self._before, self._tunnels = counts, tunnels
        return self._judge(idle_seconds, now)

    def _judge(self, idle_seconds: Mapping[uuid.UUID, int], now: float) -> Verdicts:
        idle: set[uuid.UUID] = set()
        silent: set[uuid.UUID] = set()
        ask: set[uuid.UUID] = set()
        for tunnel_id, tunnel in self._tunnels.items():
            if now - tunnel.active_at >= idle_seconds[tunnel_id] + IDLE_MARGIN:
                idle.add(tunnel_id)
            elif tunnel.asked_at is not None and now - tunnel.asked_at >= ANSWER:
                silent.add(tunnel_id)
            elif (
                tunnel.asked_at is None
                and tunnel.unanswered_since is not None
                and now - tunnel.unanswered_since >= tunnel.patience
            ):
                tunnel.asked_at = now
                ask.add(tunnel_id)
        return Verdicts(frozenset(idle), frozenset(silent), frozenset(ask))
