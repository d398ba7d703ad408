"""The devices that a default route of this computer leads to: its links to the world (rtnetlink(7))."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from typing import Any, cast

from pyroute2 import IPRoute, NetlinkError


@dataclass(frozen=True, slots=True)
class Uplinks:
    """`routes`: family, index of the device, gateway. `addresses`: index of the device, and one of its own."""

    routes: frozenset[tuple[int, int | None, str | None]] = frozenset()
    addresses: frozenset[tuple[int, IPv4Interface | IPv6Interface]] = frozenset()


def uplinks() -> Uplinks:
    """Blocks. Empty without a network, and where the kernel does not say."""
    with suppress(OSError, NetlinkError), IPRoute() as netlink:
        # pyroute2's methods are made at run time.
        asked = cast(Any, netlink)
        routes = frozenset(
            (family, route.get("RTA_OIF"), route.get("RTA_GATEWAY"))
            for family in (socket.AF_INET, socket.AF_INET6)
            for route in asked.get_default_routes(family=family)
        )
        devices = {device for _, device, _ in routes}
        addresses = frozenset(
            (address["index"], ip_interface(f"{address.get('IFA_ADDRESS')}/{address['prefixlen']}"))
            for address in asked.get_addr()
            if address["index"] in devices
        )
        return Uplinks(routes, addresses)
    return Uplinks()
