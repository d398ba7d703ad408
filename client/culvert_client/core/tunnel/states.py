"""The states of a tunnel. Each carries only its own data; times are `now` values of the machine, in seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from culvert_proto import Reason

from culvert_client.core.grant import Sa, SaPair, Tunnel, TunnelId, Usage
from culvert_client.core.tunnel.events import ClosedByController, Demander, SoftLimit

# Our tunable, in seconds: longer than a round trip, but short for a waiting person.
ANSWER_DUE = 2.0


@dataclass(frozen=True, slots=True)
class Carried:
    """A tunnel with keys. Times are `now` values. `base`: the usage when the present pair came into use."""

    tunnel: Tunnel
    pair: SaPair
    since: float
    pair_since: float
    active_at: float
    usage: Usage = field(default_factory=Usage)
    base: Usage = field(default_factory=Usage)
    # A soft limit was reached while the previous renewal was still draining.
    expiring: bool = False
    # The time of the last inbound packet, and of the first outbound packet after it; None: none.
    heard_at: float | None = None
    unanswered_since: float | None = None

    def take_counters(self, usage: Usage, now: float) -> Carried:
        """Take a reading of the counters."""
        new = usage - self.usage
        unanswered_since = self.unanswered_since
        if new.packets_in > 0:
            # An outbound packet followed the last inbound one in this interval, and has no answer yet.
            unanswered_since = now if new.packets_out > 0 and new.sent_last else None
        elif new.packets_out > 0 and unanswered_since is None:
            unanswered_since = now
        # Outbound packets without an answer may be our own probes, which are no use.
        is_use = new.packets_in > 0 or self.tunnel.probe is None or not self.is_owed_an_answer(now)
        return replace(
            self,
            usage=usage,
            active_at=now if usage != self.usage and is_use else self.active_at,
            heard_at=now if new.packets_in > 0 else self.heard_at,
            unanswered_since=unanswered_since,
        )

    def has_heard_since(self, at: float) -> bool:
        return self.heard_at is not None and self.heard_at > at

    def is_owed_an_answer(self, now: float) -> bool:
        return self.unanswered_since is not None and now - self.unanswered_since >= ANSWER_DUE

    def is_meant_by(self, event: SoftLimit) -> bool:
        return (event.tunnel_id, event.generation) == (self.tunnel.tunnel_id, self.pair.generation)

    def idle_at(self) -> float | None:
        return _after(self.active_at, self.tunnel.idle)

    def soft_at(self) -> float | None:
        return self._earlier(lambda sa: sa.soft.seconds)

    def hard_at(self) -> float | None:
        return self._earlier(lambda sa: sa.hard.seconds)

    def has_reached_hard_limit(self) -> bool:
        """Whether the pair has reached a hard limit of packets or bytes, so that the datapath drops further packets."""
        used = self.usage - self.base
        inbound, outbound = self.pair.inbound.hard, self.pair.outbound.hard
        counts = (
            (used.packets_in, inbound.packets),
            (used.bytes_in, inbound.bytes),
            (used.packets_out, outbound.packets),
            (used.bytes_out, outbound.bytes),
        )
        return any(limit and count >= limit for count, limit in counts)

    def _earlier(self, seconds: Callable[[Sa], int]) -> float | None:
        pair = self.pair
        times = [_after(self.pair_since, seconds(sa)) for sa in (pair.inbound, pair.outbound)]
        return min((at for at in times if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class Closed:
    pass


@dataclass(frozen=True, slots=True)
class Opening:
    call: int
    waiting: frozenset[Demander]
    # Set if the person closed the name meanwhile: close the tunnel when its id arrives.
    cancelled: Reason | None = None
    # The tunnel that moved when the person closed the name: close it if no other one arrives.
    moved: TunnelId | None = None
    # Tunnels that the controller closed before its answer to OpenTunnel arrived.
    lost: tuple[ClosedByController, ...] = ()


@dataclass(frozen=True, slots=True)
class Installing:
    call: int
    carried: Carried
    waiting: frozenset[Demander]


@dataclass(frozen=True, slots=True)
class Up:
    carried: Carried


@dataclass(frozen=True, slots=True)
class Renewing:
    """RenewSa is running (`call`), or will be repeated at `retry_at`."""

    carried: Carried
    call: int | None
    attempt: int
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class Switching:
    call: int
    carried: Carried
    next: SaPair
    attempt: int


@dataclass(frozen=True, slots=True)
class Activating:
    """ActivateSa is running (`call`), or will be repeated at `retry_at`."""

    carried: Carried
    old: Sa
    call: int | None
    attempt: int
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class Draining:
    carried: Carried
    old: Sa
    until: float


@dataclass(frozen=True, slots=True)
class Moving:
    """OpenTunnel is running (`call`), or will be repeated at `retry_at`; the present tunnel carries packets meanwhile."""

    carried: Carried
    # The old inbound SA, while the gateway may still encrypt with it.
    old: Sa | None
    waiting: frozenset[Demander]
    call: int | None
    attempt: int
    retry_at: float | None = None
    # Tunnels that the controller closed meanwhile, of which the answer may be one.
    lost: tuple[ClosedByController, ...] = ()


@dataclass(frozen=True, slots=True)
class Closing:
    """CloseTunnel is running (`call`), or will be repeated at `retry_at`."""

    tunnel_id: TunnelId
    reason: Reason
    waiting: frozenset[Demander]
    call: int | None
    attempt: int
    retry_at: float | None = None


State = Closed | Opening | Installing | Up | Renewing | Switching | Activating | Draining | Moving | Closing
Keyed = Installing | Up | Renewing | Switching | Activating | Draining | Moving


def _after(base: float, seconds: float) -> float | None:
    return base + seconds if seconds else None
