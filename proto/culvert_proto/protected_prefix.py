"""Limits of protected prefixes. A controller refuses others at its start, and a device in its profile. Pure.

They keep a computer's own addresses and the Internet reachable (RFC 6890).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Network = IPv4Network | IPv6Network

NUMBER_MAX = 1024
"""Our tunable: each is a route and a rule of the system's."""

# Least prefix lengths, by IP version. The unique local addresses may be protected whole (RFC 4193).
_LEAST_LENGTHS = {4: 8, 6: 16}
_UNIQUE_LOCAL = IPv6Network("fc00::/7")
# This host, loopback, link-local, multicast, broadcast.
_OWN = (
    *map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32")),
    *map(IPv6Network, ("::/127", "fe80::/10", "ff00::/8")),
    # NAT64 (RFC 6052, RFC 8215).
    *map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48")),
)


def is_too_wide(prefix: Network) -> bool:
    """Whether it is wider than a private network is."""
    unique_local = isinstance(prefix, IPv6Network) and prefix.subnet_of(_UNIQUE_LOCAL)
    return prefix.prefixlen < _LEAST_LENGTHS[prefix.version] and not unique_local


def holds_own_addresses(prefix: Network) -> bool:
    """Whether it has addresses that each computer needs for itself."""
    return any(prefix.version == own.version and prefix.overlaps(own) for own in _OWN)


def is_own_address(address: IPv4Address | IPv6Address) -> bool:
    """Whether no other computer can have it."""
    return any(address in own for own in _OWN)
