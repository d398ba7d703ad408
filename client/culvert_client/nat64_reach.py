"""Finds how this computer reaches IPv4 addresses: directly, or through the network's NAT64 if it has only IPv6."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from culvert_client.config import sockaddr
from culvert_client.core import dns_wire, nat64
from culvert_client.core.client_events import Desired
from culvert_client.core.grant import Address

_ANY_PORT = 9
# A documentation address (RFC 5737): only its route is looked up.
_ELSEWHERE = IPv4Address("192.0.2.1")


def leads_to(address: Address) -> bool:
    """Whether there is a route to the address. Sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect(sockaddr(str(address), _ANY_PORT))
    except OSError:
        return False
    return True


class Nat64Reach:
    """`ask`: sends a DNS query in wire format; None without an answer.

    `translator`: the prefix of this network's NAT64, or None. Used only without IPv4.
    """

    def __init__(
        self,
        ask: Callable[[bytes], Awaitable[bytes | None]],
        leads_to: Callable[[Address], bool] = leads_to,
    ) -> None:
        self._ask, self._leads_to = ask, leads_to
        self.translator: IPv6Network | None = None
        self._used: IPv6Network | None = None

    async def look(self) -> bool:
        """Look for a NAT64 (RFC 7050); one call at a time. True if addresses are reached in another way now."""
        before = self._used
        if self._leads_to(_ELSEWHERE):
            # With IPv4 again, send the query itself without NAT64.
            self._used = None
        self.translator = await self._discover()
        self._used = self.translator if self.is_without_ipv4 else None
        return self._used != before

    @property
    def is_without_ipv4(self) -> bool:
        return not self._leads_to(_ELSEWHERE)

    def over(self, desired: Desired) -> Desired:
        """The desired state with the gateways' addresses on this network."""
        return nat64.translate(desired, self._used) if self._used is not None else desired

    def reach(self, host: str) -> str:
        """A host's address on this network; names are returned unchanged."""
        try:
            address = ip_address(host)
        except ValueError:
            return host
        if self._used is None or isinstance(address, IPv6Address):
            return host
        return str(nat64.embed(address, self._used))

    async def _discover(self) -> IPv6Network | None:
        query = dns_wire.query(nat64.WELL_KNOWN_NAME, "AAAA")
        reply = await self._ask(query) if query is not None else None
        found = dns_wire.addresses_in(reply) if reply is not None else None
        prefixes = (nat64.prefix_in(it) for it in sorted(found or (), key=str) if isinstance(it, IPv6Address))
        return next((prefix for prefix in prefixes if prefix is not None), None)
