"""Kernel offloads for many packets in one call."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offloads:
    """Found when the datapath is created; without one of them the packets it is for cost a call each.

    `tso`: TCP super-frames to and from the TUN device. `uso`: UDP super-frames from it (Linux 6.2). `udp_segment`: several
    ESP packets in one message to the network; it ends for good when a route refuses them, as one through another IPsec
    tunnel does, or one whose MTU is smaller than they are. `udp_gro`: several in one message from the network.
    """

    tso: bool
    uso: bool
    udp_segment: bool
    udp_gro: bool
