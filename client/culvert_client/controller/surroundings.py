"""This computer's place in the network, as far as no tunnel may take it away."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface
from typing import Any, cast

from pyroute2 import IPRoute, NetlinkError

from culvert_client.core.claims import Surroundings

# Our tunable, in seconds. An unknown controller's address must not keep the profile away.
PATIENCE = 2.0


async def surroundings(controller: str) -> Surroundings:
    """`controller` is "host:port". What cannot be found out is left out."""
    networks = await asyncio.to_thread(lambda: frozenset(_networks()))
    found: list[Any] = []
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(PATIENCE):
            host = controller.rpartition(":")[0].strip("[]")
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return Surroundings(networks, frozenset(ip_address(it[4][0]) for it in found))


def _networks() -> Iterator[IPv4Network | IPv6Network]:
    """Those on the devices that a default route leads to."""
    with suppress(OSError, NetlinkError), IPRoute() as netlink:
        # pyroute2's methods are made at run time.
        asked = cast(Any, netlink)
        devices = {
            route.get("RTA_OIF")
            for family in (socket.AF_INET, socket.AF_INET6)
            for route in asked.get_default_routes(family=family)
        }
        for address in asked.get_addr():
            if address["index"] in devices:
                own = ip_interface(f"{address.get('IFA_ADDRESS')}/{address['prefixlen']}")
                # Link-local addresses are nobody's to claim.
                if not own.is_link_local:
                    yield own.network
