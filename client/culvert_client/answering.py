"""Probes doubtful gateways (core/silence.py)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from ipaddress import ip_address
from typing import Protocol

from culvert_client.core.client import Client
from culvert_client.core.client_events import GatewaysAsked
from culvert_client.core.grant import Address, TunnelId
from culvert_client.core.profile import Gateway
from culvert_client.core.silence import heard, probes
from culvert_client.latency import Latencies
from culvert_client.ping import PATIENCE, Ping, ping
from culvert_client.platform.interfaces import PingSockets

log = logging.getLogger("culvertd")

# Our tunables: probes before a verdict; seconds between checks of gateways, and of counters after a probe.
TRIES = 2
EVERY = 2.0
LOOK_FIRST, LOOK_LAST = 0.01, 0.2


class Tunnels(Protocol):
    """The organisation's tunnels in the datapath."""

    def probe(self, targets: Mapping[TunnelId, Address]) -> Awaitable[None]:
        """As Datapath.probe."""
        ...

    def measure(self) -> Awaitable[None]:
        """Read the counters and pass them to the client."""
        ...


class Answering:
    """`post` passes the results to the core. `reach`: a host's address on this network (nat64_reach.py)."""

    def __init__(
        self,
        client: Client,
        latencies: Latencies,
        tunnels: Tunnels,
        post: Callable[[GatewaysAsked], None],
        now: Callable[[], float],
        reach: Callable[[str], str],
        sockets: PingSockets,
    ) -> None:
        self._client, self._latencies, self._tunnels, self._post = client, latencies, tunnels, post
        self._now, self._reach, self._sockets = now, reach, sockets

    async def keep(self, gateway: str) -> None:
        """Repeat until the gateway is no longer doubtful. Each gateway has its own loop."""
        while gateway in self._client.doubtful_gateways(self._now()):
            await self.ask({gateway}, through=False)
            if gateway in self._client.doubtful_gateways(self._now()):
                await asyncio.sleep(EVERY)

    async def ask(self, gateways: Collection[str], *, through: bool) -> None:
        """`through`: if a gateway answers no probes, also ping resources through its tunnels, which counts as use of the
        tunnels."""
        proven = frozenset(name for name in gateways if probes(self._client.machines, name))
        known = [it for it in self._client.profile.gateways if it.name in gateways]
        try:
            await asyncio.gather(
                self._ask_through_tunnels(proven, {it.name: it for it in known}),
                self._ping([it for it in known if it.name not in proven], through=through),
            )
        except OSError as error:
            log.info("gateways cannot be probed: %s", error)

    async def _ask_through_tunnels(self, names: frozenset[str], known: Mapping[str, Gateway]) -> None:
        if not names:
            return
        # Read the counters first: earlier packets prove nothing.
        await self._tunnels.measure()
        asked_at = self._now()
        for _ in range(TRIES):
            silent = names - heard(self._client.machines, asked_at)
            if not silent:
                break
            targets = {k: v for name in silent for k, v in probes(self._client.machines, name).items()}
            await self._tunnels.probe(targets)
            until, pause = self._now() + PATIENCE, LOOK_FIRST
            while silent and self._now() < until:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LOOK_LAST)
                await self._tunnels.measure()
                silent -= heard(self._client.machines, asked_at)
        silent = names - heard(self._client.machines, asked_at)
        pinged = await self._find_answering(
            {name: {self._address(known[name])} for name in silent & known.keys()}
        )
        if silent:
            # The pings took up to 2 s: a packet that has come meanwhile ends the silence.
            await self._tunnels.measure()
            silent -= heard(self._client.machines, asked_at)
        self._post(GatewaysAsked(names - silent, silent, pinged))

    async def _ping(self, gateways: Collection[Gateway], *, through: bool) -> None:
        """A gateway that has never answered a ping here, and that the controller reports as online, gets no verdict: a
        firewall may drop pings.
        """
        judged = [it for it in gateways if not it.online or it.name in self._latencies.answering]
        names = frozenset(it.name for it in judged)
        targets = {it.name: {self._address(it), *(self._inside(it.name) if through else ())} for it in judged}
        answered = await self._find_answering(targets)
        if judged:
            self._post(GatewaysAsked(answered, names - answered))

    def _address(self, gateway: Gateway) -> Address:
        return ip_address(self._reach(gateway.address))

    async def _find_answering(self, targets: Mapping[str, Collection[Address]]) -> frozenset[str]:
        """The gateways with an address that answers. Raises OSError."""
        answers = await asyncio.gather(
            *(_answers(self._sockets, addresses) for addresses in targets.values())
        )
        return frozenset(name for name, answers in zip(targets, answers, strict=True) if answers)

    def _inside(self, gateway: str) -> Iterable[Address]:
        for machine in self._client.machines.values():
            carried = machine.carried
            # Tunnels with port selectors carry no pings.
            if carried is not None and carried.tunnel.gateway == gateway and not carried.tunnel.selectors:
                yield carried.tunnel.any_host


async def _answers(sockets: PingSockets, addresses: Collection[Address]) -> bool:
    """Whether one of them answers; returns at the first answer. Raises OSError."""
    for _ in range(TRIES):
        asked = [asyncio.create_task(ping(sockets, {Ping(address)})) for address in addresses]
        try:
            for answer in asyncio.as_completed(asked):
                if await answer:
                    return True
        finally:
            for one in asked:
                one.cancel()
    return False
