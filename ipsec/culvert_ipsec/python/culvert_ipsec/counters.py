"""Packets and bytes that a datapath carried and dropped. A tunnel's counters start at 0 and continue across rekeys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlowCounters:
    """Inner packets and bytes of one direction; `last` is the last packet's `time.monotonic`, None before the first."""

    packets: int
    bytes: int
    last: float | None


@dataclass(frozen=True, slots=True)
class TunnelCounters:
    """`drops` by cause, as in `Counters.drops`."""

    inbound: FlowCounters
    outbound: FlowCounters
    drops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of the whole datapath.

    `drops` has malformed, unknown_spi, replay, icv, selector, dummy, hard_limit, ecn (RFC 6040 section 4.2), no_policy
    (routed to the TUN device without an SA to carry it) and send_failed (refused by the operating system). It includes
    the drops of every tunnel, also of removed ones. Keepalives and `non_esp` (IKE) are RFC 3948 sections 2.3
    and 2.2.
    """

    tunnels: Mapping[str, TunnelCounters]
    drops: Mapping[str, int]
    keepalives_in: int
    keepalives_out: int
    non_esp: int

    @property
    def no_policy(self) -> int:
        return self.drops["no_policy"]
