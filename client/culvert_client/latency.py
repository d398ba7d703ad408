"""How far each gateway is: a ping a minute."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address

from culvert_client.core import echo
from culvert_client.core.grant import Address
from culvert_client.core.profile import Gateway

log = logging.getLogger("culvertd")

# Our tunables, in seconds.
EVERY = 60.0
UNTIL_KNOWN = 1.0
PATIENCE = 1.0
MOST_GATEWAYS = 64

_SOCKETS = {4: (socket.AF_INET, socket.IPPROTO_ICMP), 6: (socket.AF_INET6, socket.IPPROTO_ICMPV6)}


class Latencies:
    """`known`: the round trip to each gateway that answered the last time, in seconds."""

    def __init__(self) -> None:
        self.known: Mapping[str, float] = {}

    async def keep(self, gateways: Callable[[], Sequence[Gateway]]) -> None:
        """For ever; ends where pings are not permitted."""
        pause = UNTIL_KNOWN
        while True:
            online = [gateway for gateway in gateways() if gateway.online][:MOST_GATEWAYS]
            try:
                self.known = await measure({it.name: ip_address(it.address) for it in online})
            except PermissionError as error:
                log.info("gateways are not pinged: %s", error)
                return
            except (OSError, ValueError) as error:
                log.info("the gateways' round trips are not known: %s", error)
            # One that does not answer is asked again soon, then ever less often.
            pause = EVERY if online and len(self.known) == len(online) else min(2 * pause, EVERY)
            await asyncio.sleep(pause if online else UNTIL_KNOWN)


async def measure(targets: Mapping[str, Address]) -> dict[str, float]:
    """The round trip in seconds to those that answer. Raises OSError."""
    found: dict[str, float] = {}
    for version in _SOCKETS:
        await _ping(version, {name: it for name, it in targets.items() if it.version == version}, found)
    return found


async def _ping(version: int, targets: Mapping[str, Address], found: dict[str, float]) -> None:
    if not targets:
        return
    loop = asyncio.get_running_loop()
    # Nobody who does not see the request can make up its reply.
    ident, token = secrets.randbelow(1 << 16), secrets.token_bytes(16)
    family, protocol = _SOCKETS[version]
    with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
        raw.setblocking(False)
        sent: dict[int, tuple[str, float]] = {}
        for sequence, (name, address) in enumerate(targets.items()):
            # No way there: another network may have one.
            with contextlib.suppress(OSError):
                raw.sendto(echo.request(version, ident, sequence, token), (str(address), 0))
                sent[sequence] = (name, loop.time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while sent:
                    got = echo.reply(version, await loop.sock_recv(raw, 2048))
                    if (
                        got is not None
                        and (got.ident, got.payload) == (ident, token)
                        and got.sequence in sent
                    ):
                        name, at = sent.pop(got.sequence)
                        found[name] = loop.time() - at
