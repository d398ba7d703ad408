"""Addresses as 128-bit numbers: IPv4 is mapped to ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2). Pure."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

HOST_MASK = 2**128 - 1
_IPV4 = 0xFFFF << 32
_IPV4_LENGTH = 128 - 32


@lru_cache(maxsize=2**16)
def number(address: str) -> int:
    """Raises ValueError for text that is not an address."""
    parsed = ipaddress.ip_address(address)
    return int(parsed) if parsed.version == 6 else _IPV4 | int(parsed)


@lru_cache(maxsize=2**16)
def prefix(network: str) -> tuple[int, int]:
    """First address and length of an IPv4 or IPv6 prefix, mapped."""
    parsed = ipaddress.ip_network(network)
    length = parsed.prefixlen if parsed.version == 6 else _IPV4_LENGTH + parsed.prefixlen
    return number(str(parsed.network_address)), length


def text(value: int) -> str:
    """The address as text. Raises ValueError for a number of more than 128 bits."""
    address = ipaddress.IPv6Address(value)
    return str(address.ipv4_mapped or address)


@lru_cache(maxsize=2**16)
def family(address: str) -> int:
    """4 or 6."""
    return ipaddress.ip_address(address).version


def ipv4(address: str) -> int:
    """The 32-bit number of an IPv4 address. Raises ValueError for any other text."""
    return int(ipaddress.IPv4Address(address))
