"""Pings that are never fragmented, with their round-trip times."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field

from culvert_client.config import sockaddr
from culvert_client.core import echo
from culvert_client.core.grant import Address
from culvert_client.platform.interfaces import PingSockets

PATIENCE = 1.0
"""Our tunable, in seconds."""
# Our tunables: `probe` waits this many round-trip times after the first answer, and at least this many seconds.
_ROUND_TRIPS, _AT_LEAST = 4, 0.25

_IP_HEADER = {4: 20, 6: 40}
_TOKEN_BYTES = 16


@dataclass(frozen=True, slots=True)
class Ping:
    """`length`: bytes of the whole IP packet; 0 for the shortest."""

    address: Address
    length: int = 0


@dataclass(frozen=True, slots=True)
class Answers:
    """`round_trips`: seconds, of answered pings. `too_long`: pings that this computer's own link refuses."""

    round_trips: dict[Ping, float] = field(default_factory=dict[Ping, float])
    too_long: set[Ping] = field(default_factory=set[Ping])


async def ping(sockets: PingSockets, pings: Collection[Ping]) -> dict[Ping, float]:
    """The round-trip times in seconds of answered pings. Raises OSError."""
    found = Answers()
    for version in _IP_HEADER:
        of_version = [it for it in pings if it.address.version == version]
        await _ping(sockets, version, of_version, found, together=False)
    return found.round_trips


async def probe(sockets: PingSockets, address: Address, lengths: Collection[int]) -> Answers:
    """Send pings of these lengths at once; after the first answer wait only briefly for the others. Raises OSError."""
    found = Answers()
    await _ping(sockets, address.version, [Ping(address, it) for it in lengths], found, together=True)
    return found


async def _ping(
    sockets: PingSockets, version: int, pings: Collection[Ping], found: Answers, *, together: bool
) -> None:
    if not pings:
        return
    loop = asyncio.get_running_loop()
    # The random identifier and token keep hosts that do not see the request from forging a reply.
    ident, token = secrets.randbelow(1 << 16), secrets.token_bytes(_TOKEN_BYTES)
    with sockets.ping_socket(version) as raw:
        sent: dict[int, tuple[Ping, bytes, float]] = {}
        for sequence, one in enumerate(pings):
            payload = token.ljust(one.length - _IP_HEADER[version] - echo.HEADER_BYTES, b"\0")
            try:
                raw.sendto(echo.request(version, ident, sequence, payload), sockaddr(str(one.address), 0))
                sent[sequence] = (one, payload, loop.time())
            except OSError as error:
                # Ignored: no route in this network.
                if error.errno == errno.EMSGSIZE:
                    found.too_long.add(one)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE) as patience:
                while sent:
                    got = echo.reply(version, await loop.sock_recv(raw, 1 << 16))
                    if got is None or got.ident != ident or got.sequence not in sent:
                        continue
                    one, payload, at = sent[got.sequence]
                    if got.payload == payload:
                        del sent[got.sequence]
                        if together and not found.round_trips:
                            patience.reschedule(
                                min(
                                    loop.time() + max(_AT_LEAST, _ROUND_TRIPS * (loop.time() - at)),
                                    patience.when() or math.inf,
                                )
                            )
                        found.round_trips[one] = loop.time() - at
