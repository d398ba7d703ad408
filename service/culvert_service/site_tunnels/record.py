"""A tunnel between two gateways as its rows tell it, parsed once, and what each of the two holds of it. Pure.

hosts ── LAN ── gateway a ══════ ESP-in-UDP ══════ gateway b ── LAN ── hosts
  a's targets                                                    b's targets
"""

from __future__ import annotations

import datetime
import ipaddress
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from culvert_db import Direction, Gateway, SecurityAssociation, SiteTunnel, SiteTunnelState

from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.entry import Entry, MatchValue, Update, deletes
from culvert_service.gateways.limits import Limits
from culvert_service.gateways.record import site_of
from culvert_service.gateways.sa import Endpoint, SaId, SaNumbers, Slot, Spi, Tag
from culvert_service.gateways.selector import Selector
from culvert_service.gateways.site import Site
from culvert_service.gateways.suite import Suite, inner_mtu
from culvert_service.gateways.tunnel_entries import (
    ESP_IN_UDP_PORT,
    Pair,
    pair_entries,
    policy_entries,
    remove_pair,
)
from culvert_service.resources.target import selectors
from culvert_service.site_tunnels.keys import Keys

# With it a gateway sends to the peer of its entry, wherever packets come from: both addresses are known and fixed.
FIXED_PEER = Tag(0)
_NO_ENDPOINT = Endpoint(0)


@dataclass(frozen=True, slots=True)
class Flow:
    """Packets between the two: only what fits a target of either side is carried."""

    near: Selector
    far: Selector


@dataclass(frozen=True, slots=True)
class Side:
    """The tunnel's Course as one of its gateways has it."""

    tunnel_id: uuid.UUID
    gateway_address: str
    peer_address: str
    flows: tuple[Flow, ...]
    soft: Limits
    suite: Suite
    inner_mtu: int
    peer_port: int = ESP_IN_UDP_PORT
    endpoint: Endpoint = _NO_ENDPOINT

    def inward(self) -> Iterator[dict[str, MatchValue]]:
        return (flow.far.to(flow.near) for flow in self.flows)

    def outward(self) -> Iterator[dict[str, MatchValue]]:
        return (flow.near.to(flow.far) for flow in self.flows)


@dataclass(frozen=True, slots=True)
class End:
    """`pairs` are the generations whose numbers there are at this gateway."""

    gateway_id: int
    gateway: str
    side: Side
    pairs: dict[int, Pair]

    def policy(self, generation: int) -> tuple[Entry, ...]:
        """Its spd_out entries when it seals with that generation."""
        return policy_entries(self.side, self.pairs[generation].to_device.sa_id)

    def removal(self, generations: Iterable[int]) -> list[Update]:
        pairs = [self.pairs[one] for one in generations if one in self.pairs]
        return [update for pair in pairs for update in remove_pair(self.side, pair)]

    def all_entries(self, generations: Iterable[int]) -> tuple[Entry, ...]:
        pairs = [self.pairs[one] for one in sorted(generations) if one in self.pairs]
        return tuple(entry for pair in pairs for entry in pair_entries(self.side, pair))


@dataclass(frozen=True, slots=True)
class SiteTunnelRecord:
    id: uuid.UUID
    name: str
    version: int
    ends: tuple[End, End]
    suite: Suite
    keys: Keys

    def end(self, gateway: str) -> End:
        """Raises KeyError for a gateway that is none of its two."""
        return {end.gateway: end for end in self.ends}[gateway]

    def desired(self, end: End) -> DesiredTunnel:
        """A generation that is not in use yet, or not any more, may be there or not; and so may one that is lost."""
        current = {self.keys.current} & end.pairs.keys()
        wanted = end.all_entries(current) + tuple(entry for one in current for entry in end.policy(one))
        others = end.all_entries(end.pairs.keys() - current - self.keys.drained)
        vital, optional = ((), wanted + others) if self.keys.lost else (wanted, others)
        return DesiredTunnel.of(self.id, self.keys.current, vital, optional, self)

    def removal(self, end: End) -> list[list[Update]]:
        """Everything that it has at a gateway: first what sends traffic into it."""
        policy = deletes(*(end.policy(self.keys.current) if self.keys.current in end.pairs else ()))
        return [policy, end.removal(end.pairs)]


def flows(near: Iterable[Selector], far: Iterable[Selector]) -> tuple[Flow, ...]:
    others = tuple(far)
    return tuple(Flow(one, other) for one in near for other in others if one.meets(other))


def overlap(one: Flow, other: Flow) -> bool:
    """Whether there are packets that both carry."""
    return _share(one.near, other.near) and _share(one.far, other.far)


def parse(row: SiteTunnel, now: datetime.datetime) -> SiteTunnelRecord:
    """`row.a`, `row.b` and `row.sas` must be loaded; `now` is the database's."""
    generations = {sa.generation for sa in row.sas}
    ends = {sa.generation: sa.drain_until for sa in row.sas if sa.drain_until is not None}
    made = [sa.made_at for sa in row.sas if sa.generation == row.generation]
    life = datetime.timedelta(seconds=row.soft_seconds)
    keys = Keys(
        row.generation,
        lost=row.state is SiteTunnelState.DOWN,
        switching=row.state is SiteTunnelState.SWITCHING,
        old=bool(life) and any(at + life <= now for at in made),
        others=frozenset(generations - {row.generation}),
        draining=frozenset(ends),
        drained=frozenset(generation for generation, end in ends.items() if end <= now),
    )
    both = (
        End(gateway.id, gateway.name, side_of(row, gateway), _pairs(row.sas, gateway.id))
        for gateway in (row.a, row.b)
    )
    return SiteTunnelRecord(row.id, row.name, row.version, (next(both), next(both)), Suite(row.suite), keys)


def side_of(row: SiteTunnel, gateway: Gateway) -> Side:
    a, b = site_of(row.a), site_of(row.b)
    a_targets, b_targets = selectors(row.a_targets), selectors(row.b_targets)
    near, far, flow = (
        (a, b, flows(a_targets, b_targets)) if gateway is row.a else (b, a, flows(b_targets, a_targets))
    )
    suite = Suite(row.suite)
    soft = Limits(row.soft_packets, row.soft_bytes, row.soft_seconds)
    return Side(row.id, near.address, far.address, flow, soft, suite, _inner_mtu(suite, (near, far)))


def _inner_mtu(suite: Suite, sites: tuple[Site, Site]) -> int:
    sealed = inner_mtu(suite, link_mtu=min(it.wan.mtu for it in sites), outer_family=4, udp=True)
    return min(sealed, *(it.lan.mtu for it in sites))


def _pairs(sas: Iterable[SecurityAssociation], gateway_id: int) -> dict[int, Pair]:
    numbers: dict[int, dict[Direction, SaNumbers]] = {}
    for sa in sas:
        if sa.gateway_id == gateway_id:
            of_it = numbers.setdefault(sa.generation, {})
            of_it[sa.direction] = SaNumbers(Spi(sa.spi), Slot(sa.slot), SaId(sa.sa_id))
    return {
        generation: Pair(generation, of_it[Direction.TO_GATEWAY], of_it[Direction.TO_DEVICE], FIXED_PEER)
        for generation, of_it in numbers.items()
    }


def _share(one: Selector, other: Selector) -> bool:
    here, there = ipaddress.ip_network(one.prefix), ipaddress.ip_network(other.prefix)
    ports = one.ports[0] <= other.ports[1] and other.ports[0] <= one.ports[1]
    return one.meets(other) and here.overlaps(there) and ports
