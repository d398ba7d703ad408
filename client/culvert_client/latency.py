"""Measures the round-trip time to each gateway with a ping every minute."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address

from culvert_proto import agent_pb2

from culvert_client.core.grant import Address
from culvert_client.core.profile import Gateway
from culvert_client.ping import Ping, ping
from culvert_client.platform.interfaces import PingSockets

log = logging.getLogger("culvertd")

# Our tunables, in seconds.
EVERY = 60.0
UNTIL_KNOWN = 1.0
MOST_GATEWAYS = 64


class Latencies:
    """`known`: round-trip times in seconds of gateways that answered the last ping; `answering`: gateways that have
    answered in the present network."""

    def __init__(self, sockets: PingSockets, reach: Callable[[str], str] = str) -> None:
        self._sockets, self._reach = sockets, reach
        self.known: Mapping[str, float] = {}
        self.answering: set[str] = set()
        self._again = asyncio.Event()

    def distances(self, in_use: Collection[str]) -> list[agent_pb2.GatewayDistance]:
        """The distances for the controller."""
        return [
            agent_pb2.GatewayDistance(name=name, rtt_us=max(1, round(seconds * 1e6)), in_use=name in in_use)
            for name, seconds in self.known.items()
        ]

    def measure_anew(self) -> None:
        """Measure again, because the computer is in another network."""
        self.answering.clear()
        self._again.set()

    async def keep(self, gateways: Callable[[], Sequence[Gateway]]) -> None:
        """Measure for ever; returns if pings are not permitted."""
        pause = UNTIL_KNOWN
        while True:
            online = [gateway for gateway in gateways() if gateway.online][:MOST_GATEWAYS]
            try:
                targets = {it.name: ip_address(self._reach(it.address)) for it in online}
                self.known = await measure(self._sockets, targets)
                self.answering |= self.known.keys()
            except PermissionError as error:
                log.info("gateways are not pinged: %s", error)
                return
            except (OSError, ValueError) as error:
                log.info("the gateways' round trips are not known: %s", error)
            # Repeat soon for gateways without an answer, with doubling intervals.
            pause = EVERY if online and len(self.known) == len(online) else min(2 * pause, EVERY)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause if online else UNTIL_KNOWN):
                    await self._again.wait()
                    pause = UNTIL_KNOWN
            self._again.clear()


async def measure(sockets: PingSockets, targets: Mapping[str, Address]) -> dict[str, float]:
    """The round-trip times in seconds of those that answer. Raises OSError."""
    answered = await ping(sockets, {Ping(address) for address in targets.values()})
    return {name: answered[one] for name, address in targets.items() if (one := Ping(address)) in answered}
