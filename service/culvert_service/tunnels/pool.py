"""Inner addresses of a gateway's pools. Pure."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inner:
    """The inner addresses of a device at a gateway; `address6` only where the gateway has an IPv6 pool."""

    address: str
    address6: str | None = None

    def belongs(self, pool: str, pool6: str | None) -> bool:
        """Whether these addresses are in the pools, one for each pool."""
        if (pool6 is None) != (self.address6 is None):
            return False
        return _is_of(self.address, pool) and (pool6 is None or _is_of(self.address6 or "", pool6))

    def leaves_half(self, pool: str, pool6: str | None) -> bool:
        """Whether these addresses are in the lower halves of the pools."""
        return _in_lower_half(self.address, pool) and (
            pool6 is None or _in_lower_half(self.address6 or "", pool6)
        )


def find_free_address(pool: str, taken: Collection[str], skip: int = 0) -> str | None:
    """The lowest free host address of the pool (IPv4 or IPv6), or the free one `skip` places further, if there is one."""
    used = {ipaddress.ip_address(address) for address in taken}
    free = (str(host) for host in ipaddress.ip_network(pool).hosts() if host not in used)
    found = None
    for found in itertools.islice(free, skip + 1):  # noqa: B007
        pass
    return found


def find_address_after(pool: str, highest: str | None, skip: int = 0) -> str | None:
    """The host address of the pool (IPv4 or IPv6) after the highest taken one, or `skip` further."""
    network = ipaddress.ip_network(pool)
    found = ipaddress.ip_address(highest) if highest else network.network_address
    try:
        address = str(found + 1 + skip)
    except ipaddress.AddressValueError:
        return None
    return address if _is_of(address, pool) else None


def _in_lower_half(address: str, pool: str) -> bool:
    network = ipaddress.ip_network(pool)
    return int(ipaddress.ip_address(address)) - int(network.network_address) < network.num_addresses // 2


def _is_of(address: str, pool: str) -> bool:
    network, host = ipaddress.ip_network(pool), ipaddress.ip_address(address)
    of_all = network.version == 4 and host == network.broadcast_address
    return host in network and host != network.network_address and not of_all
