"""Asks gateways whether they answer, as long as that is in doubt (core/silence.py)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from ipaddress import ip_address

from culvert_client.core.client import Client
from culvert_client.core.client_events import GatewaysAsked
from culvert_client.core.grant import Address
from culvert_client.latency import Latencies
from culvert_client.ping import Ping, ping

log = logging.getLogger("culvertd")

# Our tunables: one lost packet is no silence; seconds between two looks.
TRIES = 2
EVERY = 2.0


class Answering:
    """`post` passes the results to the core. `reach` gives the address of a host in this network (ways.py)."""

    def __init__(
        self,
        client: Client,
        latencies: Latencies,
        post: Callable[[GatewaysAsked], None],
        now: Callable[[], float],
        reach: Callable[[str], str],
    ) -> None:
        self._client, self._latencies, self._post = client, latencies, post
        self._now, self._reach = now, reach

    async def keep(self) -> None:
        """Ask again until no gateway is in doubt."""
        while doubtful := self._client.doubtful_gateways(self._now()):
            await self.ask(doubtful, through=False)
            await asyncio.sleep(EVERY)

    async def ask(self, gateways: Collection[str], *, through: bool) -> None:
        """`through`: also ping the resources through the gateways' tunnels, which counts as use of the tunnels.

        A gateway that has never answered a ping here, and that the controller reports as online, gets no verdict: a
        firewall may drop pings.
        """
        known = {it.name: it for it in self._client.profile.gateways if it.name in gateways}
        judged = frozenset(
            name for name, it in known.items() if not it.online or name in self._latencies.answering
        )
        targets = {
            name: {ip_address(self._reach(known[name].address)), *(self._inside(name) if through else ())}
            for name in judged
        }
        try:
            answers = await asyncio.gather(*(_answers(addresses) for addresses in targets.values()))
        except OSError as error:
            log.info("gateways are not asked: %s", error)
            return
        answered = frozenset(name for name, answers in zip(targets, answers, strict=True) if answers)
        if judged:
            self._post(GatewaysAsked(answered, judged - answered))

    def _inside(self, gateway: str) -> Iterable[Address]:
        for machine in self._client.machines.values():
            carried = machine.carried
            # A tunnel with port selectors carries no ping.
            if carried is not None and carried.tunnel.gateway == gateway and not carried.tunnel.selectors:
                yield carried.tunnel.any_host


async def _answers(addresses: Collection[Address]) -> bool:
    """Whether one of them answers, as soon as it does. Raises OSError."""
    for _ in range(TRIES):
        asked = [asyncio.create_task(ping({Ping(address)})) for address in addresses]
        try:
            for answer in asyncio.as_completed(asked):
                if await answer:
                    return True
        finally:
            for one in asked:
                one.cancel()
    return False
