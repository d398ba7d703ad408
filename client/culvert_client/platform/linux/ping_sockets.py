"""Raw ICMP sockets whose packets are never fragmented (raw(7), ip(7), ipv6(7))."""

from __future__ import annotations

import socket

from culvert_ipsec.mtu_discovery import MTU_DISCOVER, PROBE

_SOCKETS = {4: (socket.AF_INET, socket.IPPROTO_ICMP), 6: (socket.AF_INET6, socket.IPPROTO_ICMPV6)}
_DONT_FRAGMENT = (socket.IPPROTO_IPV6, socket.IPV6_DONTFRAG)


def ping_socket(version: int) -> socket.socket:
    """As PingSockets."""
    family, protocol = _SOCKETS[version]
    raw = socket.socket(family, socket.SOCK_RAW, protocol)
    try:
        raw.setblocking(False)
        # PROBE ignores ICMP messages about the packet's length, which anybody can forge.
        raw.setsockopt(*MTU_DISCOVER[version], PROBE)
        if version == 6:
            raw.setsockopt(*_DONT_FRAGMENT, 1)
    except OSError:
        raw.close()
        raise
    return raw
