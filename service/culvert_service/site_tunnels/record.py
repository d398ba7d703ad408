"""A site tunnel parsed from its rows, and its entries at both gateways. Pure.

hosts ── LAN ── gateway a ══════ ESP-in-UDP ══════ gateway b ── LAN ── hosts
  a's targets                                                    b's targets
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from culvert_db import Direction, Gateway, Resource, SecurityAssociation, SiteTunnel, SiteTunnelState
from culvert_proto.contract import NAT_T_PORT, Suite
from culvert_proto.sa import Limits, inner_length

from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.entry import Entry, MatchValue, Update, deletes
from culvert_service.gateways.record import site_of
from culvert_service.gateways.sa import Endpoint, SaId, SaNumbers, Slot, Spi, Tag
from culvert_service.gateways.site import Site
from culvert_service.gateways.tunnel_entries import (
    Pair,
    pair_entries,
    policy_entries,
    remove_pair,
)
from culvert_service.site_tunnels.flow import Flow, Place, flows, limits_of, suite_of
from culvert_service.site_tunnels.keys import Keys

# With this tag a gateway sends only to the peer in its entry and does not follow packets: both addresses are fixed.
FIXED_PEER = Tag(0)
_NO_ENDPOINT = Endpoint(0)


@dataclass(frozen=True, slots=True)
class Side:
    """The tunnel's parameters at one gateway, with one suite."""

    tunnel_id: uuid.UUID
    gateway_address: str
    peer_address: str
    flows: tuple[Flow, ...]
    soft: Limits
    suite: Suite
    inner_mtu: int
    peer_port: int = NAT_T_PORT
    endpoint: Endpoint = _NO_ENDPOINT

    def inward(self) -> Iterator[dict[str, MatchValue]]:
        return (flow.far.to(flow.near) for flow in self.flows)

    def outward(self) -> Iterator[dict[str, MatchValue]]:
        return (flow.near.to(flow.far) for flow in self.flows)

    def answers(self) -> Iterator[dict[str, MatchValue]]:
        return iter(())


@dataclass(frozen=True, slots=True)
class TunnelEnd:
    """One gateway's part of the tunnel. `pairs`: for each generation with numbers there, its side and its pair."""

    gateway_id: int
    gateway: str
    pairs: dict[int, tuple[Side, Pair]]

    def policy(self, generation: int) -> tuple[Entry, ...]:
        """The spd_out entries for encryption with that generation."""
        side, pair = self.pairs[generation]
        return policy_entries(side, pair.to_device.sa_id)

    def permits(self, until: int) -> tuple[Entry, ...]:
        """The spd_in entries of the generations up to `until`."""
        known = self.all_entries(one for one in self.pairs if one <= until)
        return tuple(entry for entry in known if entry.table == "spd_in")

    def removal(self, generations: Iterable[int]) -> list[Update]:
        pairs = [self.pairs[one] for one in generations if one in self.pairs]
        return [update for side, pair in pairs for update in remove_pair(side, pair)]

    def all_entries(self, generations: Iterable[int]) -> tuple[Entry, ...]:
        pairs = [self.pairs[one] for one in sorted(generations) if one in self.pairs]
        return tuple(entry for side, pair in pairs for entry in pair_entries(side, pair))


@dataclass(frozen=True, slots=True)
class SiteTunnelRecord:
    id: uuid.UUID
    name: str
    version: int
    ends: tuple[TunnelEnd, TunnelEnd]
    keys: Keys

    def end(self, gateway: str) -> TunnelEnd:
        """Raises KeyError for any other gateway than the tunnel's two."""
        return {end.gateway: end for end in self.ends}[gateway]

    def desired(self, end: TunnelEnd) -> DesiredTunnel:
        """For the reconciler. Entries of generations that are not current, or lost, may be missing."""
        current = {self.keys.current} & end.pairs.keys()
        wanted = end.all_entries(current) + tuple(entry for one in current for entry in end.policy(one))
        others = end.all_entries(end.pairs.keys() - current - self.keys.drained)
        vital, optional = ((), wanted + others) if self.keys.lost else (wanted, others)
        return DesiredTunnel.of(self.id, self.keys.current, vital, optional, self)

    def removal(self, end: TunnelEnd) -> list[list[Update]]:
        """Removals of all entries at an end. The entries that send traffic into the tunnel come first."""
        policy = deletes(*(end.policy(self.keys.current) if self.keys.current in end.pairs else ()))
        return [policy, end.removal(end.pairs)]


def parse(row: SiteTunnel, now: datetime.datetime) -> SiteTunnelRecord:
    """`row.a`, `row.b`, `row.carried` and `row.sas` must be loaded; `now`: the database's clock."""
    generations = {sa.generation for sa in row.sas}
    suites = {sa.generation: Suite(sa.suite) for sa in row.sas if sa.suite}
    ends = {sa.generation: sa.drain_until for sa in row.sas if sa.drain_until is not None}
    made = [sa.made_at for sa in row.sas if sa.generation == row.generation]
    life = datetime.timedelta(seconds=wanted_limits(row).seconds)
    changed = suites.get(row.generation, wanted_suite(row)) is not wanted_suite(row)
    keys = Keys(
        row.generation,
        lost=row.state is SiteTunnelState.DOWN,
        switching=row.state is SiteTunnelState.SWITCHING,
        old=changed or (bool(life) and any(at + life <= now for at in made)),
        others=frozenset(generations - {row.generation}),
        draining=frozenset(ends),
        drained=frozenset(generation for generation, end in ends.items() if end <= now),
    )
    ends = (_end(row, gateway, suites) for gateway in (row.a, row.b))
    return SiteTunnelRecord(row.id, row.name, row.version, (next(ends), next(ends)), keys)


def wanted_suite(row: SiteTunnel) -> Suite:
    """The suite of the next generation. Raises ValueError if the resources' suites differ, which validation prevents."""
    return suite_of(row.suite, [one.resource.suite for one in row.carried])


def wanted_limits(row: SiteTunnel) -> Limits:
    return limits_of(_limits(row), [_limits(one.resource) or Limits() for one in row.carried])


def place_of(row: SiteTunnel, gateway: Gateway) -> Place:
    """The targets behind one of the tunnel's gateways."""
    return Place.of(*targets_of(row, gateway))


def targets_of(row: SiteTunnel, gateway: Gateway) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The administrator's targets behind the gateway, and those of the resources there."""
    own = row.a_targets if gateway is row.a else row.b_targets
    return own, [target for one in _behind(row, gateway) for target in one.targets]


def resources_of(row: SiteTunnel, gateway: Gateway) -> list[str]:
    """The resources whose profiles define the networks behind `gateway`."""
    return [one.name for one in _behind(row, gateway)]


def flows_at(row: SiteTunnel, gateway: Gateway) -> tuple[Flow, ...]:
    return flows(place_of(row, gateway), place_of(row, row.b if gateway is row.a else row.a))


def _behind(row: SiteTunnel, gateway: Gateway) -> list[Resource]:
    found = [one.resource for one in row.carried if one.gateway_id == gateway.id]
    return sorted(found, key=lambda resource: resource.name)


def _limits(row: SiteTunnel | Resource) -> Limits | None:
    if row.soft_packets is None or row.soft_bytes is None or row.soft_seconds is None:
        return None
    return Limits(row.soft_packets, row.soft_bytes, row.soft_seconds)


def _end(row: SiteTunnel, gateway: Gateway, suites: Mapping[int, Suite]) -> TunnelEnd:
    near, far = site_of(gateway), site_of(row.b if gateway is row.a else row.a)
    carried, soft = flows_at(row, gateway), wanted_limits(row)

    def side(suite: Suite) -> Side:
        mtu = _inner_mtu(suite, (near, far))
        return Side(row.id, near.address, far.public_address, carried, soft, suite, mtu)

    pairs = {one: (side(suites[one]), pair) for one, pair in _pairs(row.sas, gateway.id).items()}
    return TunnelEnd(gateway.id, gateway.name, pairs)


def _inner_mtu(suite: Suite, sites: tuple[Site, Site]) -> int:
    sealed = inner_length(min(it.wan.mtu for it in sites), 4, suite)
    return min(sealed, *(it.lan.mtu for it in sites))


def _pairs(sas: Iterable[SecurityAssociation], gateway_id: int) -> dict[int, Pair]:
    numbers: dict[int, dict[Direction, SaNumbers]] = {}
    crypto_ports: dict[int, int | None] = {}
    for sa in sas:
        if sa.gateway_id == gateway_id:
            of_it = numbers.setdefault(sa.generation, {})
            crypto_ports[sa.generation] = sa.crypto_port
            of_it[sa.direction] = SaNumbers(Spi(sa.spi), Slot(sa.slot), SaId(sa.sa_id))
    return {
        generation: Pair(
            generation,
            of_it[Direction.TO_GATEWAY],
            of_it[Direction.TO_DEVICE],
            FIXED_PEER,
            crypto_ports[generation],
        )
        for generation, of_it in numbers.items()
    }
