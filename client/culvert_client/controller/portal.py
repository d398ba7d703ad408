"""Whether the network asks for a sign-in of its own before it lets anything through (RFC 8952 section 1)."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable
from urllib.parse import urlsplit

# The ports on which portals intercept everybody.
PORT = 80
# Our tunable, in seconds: a person waits to hear what is wrong.
PATIENCE = 1.5
# RFC 6585 section 6.
_NETWORK_AUTHENTICATION_REQUIRED = 511


async def stands_before(controller: str, reach: Callable[[str], str] = str) -> bool:
    """Whether something else answers in the place of `controller`, which is "host:port", and leads elsewhere.

    `reach` gives the address that stands for a host on this network (nat64_reach.py).
    Nothing of this device is told, and what is answered opens nothing: it is only said to the person.
    """
    host = controller.rpartition(":")[0].strip("[]")
    try:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.to_thread(_leads_elsewhere, host, reach(host))
    except (OSError, TimeoutError, http.client.HTTPException, ValueError):
        return False


def _leads_elsewhere(host: str, reached: str) -> bool:
    connection = http.client.HTTPConnection(reached, PORT, timeout=PATIENCE)
    try:
        connection.request("GET", "/", headers={"Host": f"[{host}]" if ":" in host else host})
        answer = connection.getresponse()
        if answer.status == _NETWORK_AUTHENTICATION_REQUIRED:
            return True
        there = urlsplit(answer.headers["Location"] or "").hostname
        return 300 <= answer.status < 400 and there is not None and there != host.lower()
    finally:
        connection.close()
