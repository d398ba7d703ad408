"""Inner addresses of a gateway's pool (DESIGN D13). Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


def free_address(pool: str, taken: Collection[str]) -> str | None:
    """The lowest host address of the pool that nobody has."""
    used = {ipaddress.IPv4Address(address) for address in taken}
    return next((str(host) for host in ipaddress.IPv4Network(pool).hosts() if host not in used), None)
