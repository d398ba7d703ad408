"""This computer's place in the network, as far as no tunnel may take it away."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from culvert_client.core.claims import Surroundings
from culvert_client.platform.interfaces import Uplinks

# Our tunable, in seconds. An unknown controller's address must not keep the profile away.
PATIENCE = 2.0


async def surroundings(uplinks: Callable[[], Uplinks], controller: str) -> Surroundings:
    """`uplinks` as Networks; `controller` is "host:port". What cannot be found out is left out."""
    own = await asyncio.to_thread(uplinks)
    # Link-local addresses are nobody's to claim.
    networks = frozenset(it.network for _, it in own.addresses if not it.is_link_local)
    found: list[Any] = []
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(PATIENCE):
            host = controller.rpartition(":")[0].strip("[]")
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return Surroundings(networks, frozenset(ip_address(it[4][0]) for it in found))
