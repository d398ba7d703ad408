"""Inner addresses of a gateway's pool (DESIGN D13). Pure."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inner:
    """The inner addresses of a device at a gateway; IPv6 where the gateway has a pool of it."""

    address: str
    address6: str | None = None


def free_address(pool: str, taken: Collection[str], skip: int = 0) -> str | None:
    """The lowest host address of the pool, of either family, that nobody has; or `skip` further, if there are so many."""
    used = {ipaddress.ip_address(address) for address in taken}
    free = (str(host) for host in ipaddress.ip_network(pool).hosts() if host not in used)
    found = None
    for found in itertools.islice(free, skip + 1):  # noqa: B007
        pass
    return found
