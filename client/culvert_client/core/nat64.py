"""NAT64: IPv4 addresses embedded in IPv6 addresses, for networks without IPv4 (RFC 6052, RFC 7050)."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from culvert_client.core.client_events import Desired
from culvert_client.core.grant import Address, Tunnel

WELL_KNOWN_NAME = "ipv4only.arpa"
"""RFC 7050 section 2: it has IPv4 addresses alone, so whoever answers with IPv6 ones has made them."""

_WELL_KNOWN_ADDRESSES = frozenset(map(IPv4Address, ("192.0.0.170", "192.0.0.171")))
# RFC 6052 section 2.2: the positions of the IPv4 octets, by prefix length; octet 8 is zero.
_OCTETS = {
    32: (4, 5, 6, 7),
    40: (5, 6, 7, 9),
    48: (6, 7, 9, 10),
    56: (7, 9, 10, 11),
    64: (9, 10, 11, 12),
    96: (12, 13, 14, 15),
}
# An IPv6 header is this many bytes longer than an IPv4 header.
_LONGER = 20


def embed(address: IPv4Address, prefix: IPv6Network) -> IPv6Address:
    """`prefix`: a result of `prefix_in`."""
    made = bytearray(prefix.network_address.packed)
    for at, octet in zip(_OCTETS[prefix.prefixlen], address.packed, strict=True):
        made[at] = octet
    return IPv6Address(bytes(made))


def prefix_in(address: IPv6Address) -> IPv6Network | None:
    """The NAT64 prefix in an address of the well-known name (RFC 7050 section 3); the longest possible one."""
    for length, octets in sorted(_OCTETS.items(), reverse=True):
        if IPv4Address(bytes(address.packed[at] for at in octets)) in _WELL_KNOWN_ADDRESSES:
            return IPv6Network((address, length), strict=False)
    return None


def translate(desired: Desired, prefix: IPv6Network) -> Desired:
    """The desired state with gateways' IPv4 addresses replaced by their addresses at the translator."""
    return replace(
        desired, tunnels=tuple(replace(sas, tunnel=_through(sas.tunnel, prefix)) for sas in desired.tunnels)
    )


def _through(tunnel: Tunnel, prefix: IPv6Network) -> Tunnel:
    far: Address = tunnel.outer_address
    if isinstance(far, IPv6Address):
        return tunnel
    return replace(tunnel, outer_address=embed(far, prefix), mtu=tunnel.mtu - _LONGER)
