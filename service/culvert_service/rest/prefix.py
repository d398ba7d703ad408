"""The prefixes of an address to which rate limits apply. Pure.

A caller usually has one IPv4 address, but a whole IPv6 /64, and often a /48 (RFC 6177 section 2).
"""

from __future__ import annotations

import ipaddress

# The key for unknown addresses: all such callers share one budget.
UNKNOWN = "unknown"
# An IPv6-only controller sees IPv4 callers behind a translator with this prefix (RFC 6052 section 2.1).
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_BITS = 32
_IPV6_BITS = (64, 48)


def limit_keys(address: str | None) -> tuple[str, ...]:
    """The prefixes whose budgets a call from `address` uses, the narrowest first.

    IPv4: ("203.0.113.7/32",). IPv6: ("2001:db8:1:2::/64", "2001:db8:1::/48"). IPv4-mapped: as IPv4.
    """
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return (UNKNOWN,)
    if isinstance(parsed, ipaddress.IPv6Address):
        # int() leaves the scope out, which names an interface of this computer.
        number = int(parsed)
        if parsed.ipv4_mapped is None and ipaddress.IPv6Address(number) not in _NAT64:
            return tuple(str(ipaddress.IPv6Network((number, bits), strict=False)) for bits in _IPV6_BITS)
        parsed = ipaddress.IPv4Address(number & (1 << _IPV4_BITS) - 1)
    return (f"{parsed}/{_IPV4_BITS}",)
