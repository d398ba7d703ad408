"""Sends a packet through each tunnel at once, so that its gateway learns the device's new address (RFC 4555 section 3.5).

A device that only receives, e.g. a download, sends nothing after it has moved, and the gateway goes on sending to the old
address. The packet matches the tunnel's selectors, and its hop limit expires on the gateway, so that no host behind
receives it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address, ip_network

from culvert_ipsec.desired import Selector, TunnelState

DISCARD = 9
_LAST_HOP = 1
_ACKNOWLEDGES = 0x5010
"""The start of a TCP header: five words long, with a flag that opens nothing."""


def nudge(tunnel: TunnelState, target: str | None = None) -> None:
    """Send to `target`, or to an address that the tunnel carries. Needs CAP_NET_RAW. A failure to send is ignored."""
    for selector in tunnel.selectors or map(Selector, tunnel.remote_prefixes):
        prefix = ip_network(selector.prefix)
        far = ip_address(target) if target is not None else prefix.network_address
        if far not in prefix:
            continue
        own = tunnel.inner_address if far.version == 4 else tunnel.inner_address6
        if own is None:
            continue
        protocol = selector.protocol or socket.IPPROTO_UDP
        family = socket.AF_INET if far.version == 4 else socket.AF_INET6
        with suppress(OSError), socket.socket(family, socket.SOCK_RAW, protocol) as sender:
            if far.version == 4:
                sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, _LAST_HOP)
            else:
                sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, _LAST_HOP)
            sender.bind((str(ip_address(own)), 0))
            sender.sendto(b"".join(_payload(protocol, selector.ports)), (str(far), 0))
            return


def _payload(protocol: int, ports: tuple[int, int]) -> Iterator[bytes]:
    """Payloads that match the selector's ports; the checksums are 0, because no router verifies them."""
    port = min(max(DISCARD, ports[0]), ports[1])
    match protocol:
        case socket.IPPROTO_UDP:
            yield struct.pack("!HHHH", port, port, 8, 0)
        case socket.IPPROTO_TCP:
            yield struct.pack("!HHIIHHHH", port, port, 0, 0, _ACKNOWLEDGES, 0, 0, 0)
        case _:
            # An echo request without a checksum, for ICMP.
            yield struct.pack("!BBHHH", 8, 0, 0, 0, 0)
