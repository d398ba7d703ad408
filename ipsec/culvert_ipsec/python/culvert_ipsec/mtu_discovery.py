"""A socket's knowledge of the path's MTU: constants of linux/in.h and linux/in6.h that Python's socket module lacks."""

from __future__ import annotations

import socket

MTU_DISCOVER = {4: (socket.IPPROTO_IP, 10), 6: (socket.IPPROTO_IPV6, 23)}
"""Level and name of IP_MTU_DISCOVER and IPV6_MTU_DISCOVER, by IP version."""
PROBE, INTERFACE = 3, 4
"""IP_PMTUDISC_PROBE: DF is set, and what is known of the path does not count. IP_PMTUDISC_INTERFACE: the device's MTU alone
counts, and messages from the network change nothing."""
