"""Judges by a gateway's counters: idle tunnels, and devices that no longer answer. Pure.

Only authenticated packets that the policy admits prove that a device is alive. When packets are sent to it and none come
back for SILENCE, the device is asked to open the tunnel again (RFC 7296 section 2.4: only a silent peer is probed). If it
does not within ANSWER, its tunnel is closed. A device that only receives, but answers when asked, is asked less and less
often: up to every SILENCE_MAX.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

# Our tunables, in seconds. The device closes its idle tunnels itself; the margin lets it do so first.
IDLE_MARGIN = 3.0
SILENCE = 30.0
SILENCE_MAX = 1800.0
ANSWER = 10.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Packets so far, by SA. `heard`: authenticated and admitted by the policy; `sent`: encrypted."""

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
    """Tunnels to close (`idle`, `silent`), and tunnels whose devices to ask."""

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

    def note_packet(self, now: float) -> None:
        self.active_at = now
        if self.unanswered_since is None:
            self.unanswered_since = now

    def note_renewal(self) -> None:
        """Its device has called the controller."""
        if self.asked_at is not None:
            self.patience = min(2 * self.patience, SILENCE_MAX)
        self.unanswered_since = self.asked_at = None


class Silence:
    """Judges the tunnels of one gateway, reading by reading. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._before = Counts({}, {})
        self._tunnels: dict[uuid.UUID, _Tunnel] = {}

    def look(self, counts: Counts, carried: Mapping[int, Carried], now: float) -> Verdicts:
        """Judge after a reading of the counters. SAs that are not in `carried` are ignored."""
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
                tunnel.note_renewal()
            tunnel.sas = its
            if any(counts.heard.get(sa, 0) > self._before.heard.get(sa, 0) for sa in its):
                tunnel.heard(now)
            elif any(counts.sent.get(sa, 0) > self._before.sent.get(sa, 0) for sa in its):
                tunnel.note_packet(now)
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
