"""The devices that a default route of this computer leads to: its links to the world (rtnetlink(7))."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from culvert_ipsec.rtnetlink import MAIN_TABLE, RouteSocket


@dataclass(frozen=True, slots=True)
class Uplinks:
    """`routes`: IP version, index of the device, gateway. `addresses`: index of the device, and one of its own."""

    routes: frozenset[tuple[int, int | None, IPv4Address | IPv6Address | None]] = frozenset()
    addresses: frozenset[tuple[int, IPv4Interface | IPv6Interface]] = frozenset()


def uplinks() -> Uplinks:
    """Blocks. Empty without a network, and where the kernel does not say."""
    with suppress(OSError), RouteSocket() as netlink:
        routes = frozenset(
            (version, route.device, route.gateway)
            for version in (4, 6)
            for route in netlink.routes(version, MAIN_TABLE)
            if route.prefix.prefixlen == 0
        )
        devices = {device for _, device, _ in routes}
        return Uplinks(routes, frozenset(it for it in netlink.addresses() if it[0] in devices))
    return Uplinks()
