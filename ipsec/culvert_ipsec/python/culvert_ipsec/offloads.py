"""Kernel offloads for many packets in one call."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offloads:
    """The offloads that the kernel supports when the datapath is created. Without one, each packet costs a system call.

    `tso`: TCP super-frames to and from the TUN device. `uso`: UDP super-frames from it (Linux 6.2). `udp_segment`: several
    ESP packets in one message to the network; it is disabled for good when a route refuses them, e.g. one through another
    IPsec tunnel or with an MTU smaller than the packets. `udp_gro`: several in one message from the network.
    """

    tso: bool
    uso: bool
    udp_segment: bool
    udp_gro: bool
