"""Pings, none of which is fragmented on its way: who answers, and how long it takes."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Collection
from dataclasses import dataclass

from culvert_client.config import sockaddr
from culvert_client.core import echo
from culvert_client.core.grant import Address

PATIENCE = 1.0
"""Our tunable, in seconds."""

_SOCKETS = {4: (socket.AF_INET, socket.IPPROTO_ICMP), 6: (socket.AF_INET6, socket.IPPROTO_ICMPV6)}
# linux/in.h, linux/in6.h: IP_MTU_DISCOVER, IPV6_MTU_DISCOVER; DF without what is known of the path.
_DISCOVER = {4: (socket.IPPROTO_IP, 10), 6: (socket.IPPROTO_IPV6, 23)}
_PROBE = 3
_IP_HEADER = {4: 20, 6: 40}
_TOKEN_BYTES = 16


@dataclass(frozen=True, slots=True)
class Ping:
    """`length` of the whole IP packet in bytes; 0 for the shortest."""

    address: Address
    length: int = 0


async def ping(pings: Collection[Ping]) -> dict[Ping, float]:
    """The round trip in seconds of those that were answered. Raises OSError."""
    found: dict[Ping, float] = {}
    for version in _SOCKETS:
        await _ping(version, [it for it in pings if it.address.version == version], found)
    return found


async def _ping(version: int, pings: Collection[Ping], found: dict[Ping, float]) -> None:
    if not pings:
        return
    loop = asyncio.get_running_loop()
    # Nobody who does not see the request can make up its reply.
    ident, token = secrets.randbelow(1 << 16), secrets.token_bytes(_TOKEN_BYTES)
    family, protocol = _SOCKETS[version]
    with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
        raw.setblocking(False)
        raw.setsockopt(*_DISCOVER[version], _PROBE)
        sent: dict[int, tuple[Ping, bytes, float]] = {}
        for sequence, one in enumerate(pings):
            payload = token.ljust(one.length - _IP_HEADER[version] - echo.HEADER_BYTES, b"\0")
            # No way there, or none so wide: another network may have one.
            with contextlib.suppress(OSError):
                raw.sendto(echo.request(version, ident, sequence, payload), sockaddr(str(one.address), 0))
                sent[sequence] = (one, payload, loop.time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while sent:
                    got = echo.reply(version, await loop.sock_recv(raw, 1 << 16))
                    if got is None or got.ident != ident or got.sequence not in sent:
                        continue
                    one, payload, at = sent[got.sequence]
                    if got.payload == payload:
                        del sent[got.sequence]
                        found[one] = loop.time() - at
