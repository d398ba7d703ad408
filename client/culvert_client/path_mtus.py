"""Measures the path MTU to each gateway (core/path_mtu.py), and reports it to the core and the controller.

                      pings of several lengths
gateways, tunnels ─► PathMtu of each address ◄─────────► gateway's outer address
                       │ PathsMeasured                 │ SetPathMtu, and with OpenTunnel
                       ▼                               ▼
                     core: for this side's packets   controller: for the gateway's packets
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address

from culvert_proto import CulvertError, agent_pb2
from culvert_proto.sa import inner_length

from culvert_client.controller.agent import Agent
from culvert_client.core.client import Client
from culvert_client.core.client_events import PathsMeasured
from culvert_client.core.grant import Address, Tunnel, TunnelId
from culvert_client.core.path_mtu import LEAST, PathMtu
from culvert_client.core.tunnel.states import Carried
from culvert_client.ping import probe
from culvert_client.platform.interfaces import PingSockets

log = logging.getLogger("culvertd")

# Our tunables: seconds between checks with and without an open tunnel, and until a failed report is repeated; the most
# gateways.
LOOK_EVERY = 0.5
LOOK_IDLE_EVERY = 2.0
TELL_AGAIN = 5.0
MOST_PATHS = 32
# Signs of a stall: this many bytes in one interval and less than _TRICKLE in the next, or no answer for _UNANSWERED s.
_FLOW, _TRICKLE, _UNANSWERED = 16_000, 1_000, 0.5
# A NAT64 makes an IPv4 packet this many bytes longer.
_TRANSLATED = 20


@dataclass(slots=True)
class _Report:
    """The last report of a tunnel's path MTU to the controller; `mtu` 0: none."""

    tunnel: Tunnel
    mtu: int
    again_at: float = 0.0


class PathMtus:
    """`post` passes results to the core. `reach`: a host's address on this network (nat64_reach.py)."""

    def __init__(
        self,
        client: Client,
        post: Callable[[PathsMeasured], None],
        agent: Callable[[], Agent | None],
        now: Callable[[], float],
        reach: Callable[[str], str],
        sockets: PingSockets,
    ) -> None:
        self._client, self._post, self._agent = client, post, agent
        self._now, self._reach, self._sockets = now, reach, sockets
        self._paths: dict[Address, PathMtu] = {}
        self._posted = PathsMeasured({}, frozenset())
        self._told: dict[TunnelId, _Report] = {}
        self._bytes: dict[Address, tuple[int, int]] = {}
        self._permitted = True
        self._moves = 0
        self._look, self._news = asyncio.Event(), asyncio.Event()

    def begin_anew(self) -> None:
        """Measure again, because the computer is in another network."""
        self._moves += 1
        for path in self._paths.values():
            path.begin(self._now())
        self._tell_core()
        self._look.set()

    def expect(self, tunnel: Tunnel) -> None:
        """Start to measure a new tunnel's path; until it is known, only short packets are sent there."""
        if tunnel.outer_address not in self._paths:
            self._paths[tunnel.outer_address] = PathMtu(self._now())
            self._tell_core()
        self._paths[tunnel.outer_address].note_use(self._now())
        self._look.set()

    def distances(self, known: Iterable[agent_pb2.GatewayDistance]) -> list[agent_pb2.GatewayDistance]:
        """The distances for OpenTunnel: the known round-trip times, and the path MTUs."""
        by_name = {it.name: it for it in known}
        for gateway in self._client.profile.gateways:
            path = self._paths.get(ip_address(gateway.address))
            if path is not None:
                report = by_name.setdefault(gateway.name, agent_pb2.GatewayDistance(name=gateway.name))
                report.path_mtu = self._as_the_gateway_sees(ip_address(gateway.address), path)
        return list(by_name.values())

    async def keep(self) -> None:
        """For ever."""
        while True:
            self._follow()
            now = self._now()
            due = [address for address, path in self._paths.items() if path.due <= now]
            if due and self._permitted:
                await asyncio.gather(*(self._probe(it) for it in due))
                self._tell_core()
            if self._permitted and any(path.due <= self._now() for path in self._paths.values()):
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY if self._bytes else LOOK_IDLE_EVERY):
                    await self._look.wait()
            self._look.clear()

    async def keep_telling(self) -> None:
        """For ever."""
        while True:
            await self._tell_controller()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY if self._told else LOOK_IDLE_EVERY):
                    await self._news.wait()
            self._news.clear()

    def _follow(self) -> None:
        """Measure the paths of online gateways and open tunnels, and note which are in use or doubtful."""
        now = self._now()
        online = [ip_address(it.address) for it in self._client.profile.gateways if it.online]
        carried = {it.tunnel.outer_address: it for it in self._list_carried()}
        wanted = dict.fromkeys((*carried, *online[:MOST_PATHS]))
        if self._paths.keys() != wanted.keys():
            self._paths = {it: self._paths.get(it) or PathMtu(now) for it in wanted}
            self._tell_core()
        counted: dict[Address, tuple[int, int]] = {}
        for address, one in carried.items():
            total = sum(
                it.usage.bytes_in + it.usage.bytes_out
                for it in self._list_carried()
                if it.tunnel.outer_address == address
            )
            before, flow = self._bytes.get(address, (total, 0))
            counted[address] = (total, total - before)
            if total != before:
                self._paths[address].note_use(now)
            owed = one.unanswered_since is not None and now - one.unanswered_since >= _UNANSWERED
            if owed or (flow >= _FLOW and total - before < _TRICKLE):
                self._paths[address].doubt(now)
        self._bytes = counted

    def _list_carried(self) -> Iterator[Carried]:
        for machine in self._client.machines.values():
            if machine.carried is not None:
                yield machine.carried

    async def _probe(self, address: Address) -> None:
        path, moves = self._paths[address], self._moves
        try:
            reached = ip_address(self._reach(str(address)))
            answers = await probe(self._sockets, reached, path.probes(self._now()))
        except PermissionError as error:
            log.info("paths are not probed: %s", error)
            self._permitted = False
            return
        except OSError as error:
            log.info("the path to %s is not probed: %s", address, error)
            answers = None
        if moves != self._moves:
            return
        before = path.mtu
        answered = [it.length for it in answers.round_trips] if answers is not None else []
        too_long = [it.length for it in answers.too_long] if answers is not None else []
        if 0 < max(answered, default=0) < LEAST and await self._passes_inside(address):
            answered.append(LEAST)
        path.take_results(answered, too_long, self._now())
        if path.is_settled and path.mtu != before:
            log.info("packets of up to %s bytes pass between here and %s", path.mtu, address)

    async def _passes_inside(self, address: Address) -> bool:
        """Whether a packet of LEAST is answered through a tunnel: some networks drop only long pings."""
        tunnels = [it.tunnel for it in self._list_carried() if it.tunnel.outer_address == address]
        version = ip_address(self._reach(str(address))).version
        for tunnel in tunnels:
            # Tunnels with port selectors carry no pings.
            if not tunnel.selectors:
                with suppress(OSError):
                    answers = await probe(self._sockets, tunnel.any_host, [inner_length(LEAST, version)])
                    if answers.round_trips:
                        return True
        return False

    def _tell_core(self) -> None:
        found = PathsMeasured(
            {address: path.mtu for address, path in self._paths.items()},
            frozenset(address for address, path in self._paths.items() if path.is_narrow),
        )
        if found != self._posted:
            self._posted = found
            self._post(found)
        self._news.set()

    async def _tell_controller(self) -> None:
        carried = {it.tunnel.tunnel_id: it.tunnel for it in self._list_carried()}
        self._told = {
            number: report
            if (report := self._told.get(number)) and report.tunnel == tunnel
            else _Report(tunnel, tunnel.path_mtu)
            for number, tunnel in carried.items()
        }
        for report in self._told.values():
            path = self._paths.get(report.tunnel.outer_address)
            if path is None or report.again_at > self._now():
                continue
            mtu = self._as_the_gateway_sees(report.tunnel.outer_address, path)
            # During a search, report only a shorter path MTU.
            if mtu != report.mtu and (path.is_settled or not report.mtu or mtu < report.mtu):
                await self._set(report, mtu)

    async def _set(self, report: _Report, mtu: int) -> None:
        agent = self._agent()
        if agent is None:
            return
        try:
            await agent.set_path_mtu(report.tunnel.tunnel_id, mtu)
            report.mtu = mtu
        except CulvertError as error:
            log.info("the controller was not told of %s's path: %s", report.tunnel.fqdn, error)
            report.again_at = self._now() + TELL_AGAIN

    def _as_the_gateway_sees(self, address: Address, path: PathMtu) -> int:
        translated = ip_address(self._reach(str(address))).version != address.version
        return max(path.reported - _TRANSLATED, LEAST) if translated else path.reported
