"""Culvert's IPsec datapath: one interface, two backends.

A `Datapath` gets its whole state and makes the machine equal to it. `Kernel` uses Linux's ESP, `Userspace` our own over
TUN and UDP.
"""

from culvert_proto.sa import Limits

from culvert_ipsec.datapath import (
    Counters,
    Datapath,
    DatapathError,
    DeviceGoneError,
    FlowCounters,
    NotOpenedError,
    Obstacle,
    SoftLimit,
    TunnelCounters,
)
from culvert_ipsec.desired import (
    ClosedTunnel,
    DatapathState,
    InboundSa,
    OnLink,
    OutboundSa,
    Selector,
    TunnelState,
)
from culvert_ipsec.kernel import Kernel, remove_leftovers
from culvert_ipsec.lost_sockets import end_lost
from culvert_ipsec.nudge import nudge
from culvert_ipsec.userspace import Offloads, Userspace
from culvert_ipsec.walls import block, clean_up

__all__ = [
    "ClosedTunnel",
    "Counters",
    "Datapath",
    "DatapathError",
    "DatapathState",
    "DeviceGoneError",
    "FlowCounters",
    "InboundSa",
    "Kernel",
    "Limits",
    "NotOpenedError",
    "Obstacle",
    "Offloads",
    "OnLink",
    "OutboundSa",
    "Selector",
    "SoftLimit",
    "TunnelCounters",
    "TunnelState",
    "Userspace",
    "block",
    "clean_up",
    "end_lost",
    "nudge",
    "remove_leftovers",
]
