"""Single SAs, packet by packet, without a datapath: for tests, and for programs with their own I/O."""

from culvert_ipsec._native import EspError, Inbound, Outbound

__all__ = ["EspError", "Inbound", "Outbound"]
