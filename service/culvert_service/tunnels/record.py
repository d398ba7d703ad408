"""A tunnel parsed from its rows."""

from __future__ import annotations

import datetime
import functools
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from culvert_db import Device, Direction, Gateway, Resource, Tunnel, TunnelState, from_json
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import Suite
from culvert_proto.phrases import Phrase
from culvert_proto.sa import Limits

from culvert_service.gateways import mapped
from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.entry import Entry, Update, deletes, modifies
from culvert_service.gateways.link import Link
from culvert_service.gateways.record import site_of
from culvert_service.gateways.sa import Endpoint, SaId, SaNumbers, Slot, Spi, Tag, compute_hard
from culvert_service.gateways.selector import Selector
from culvert_service.gateways.site import Probe, Site
from culvert_service.gateways.tunnel_entries import (
    Pair,
    Path,
    inward_policy,
    pair_entries,
    policy_entries,
    remove_pair,
    sa_keys,
)
from culvert_service.resources.target import selectors
from culvert_service.tunnels.lifecycle import Generations
from culvert_service.tunnels.pool import Inner


@dataclass(frozen=True, slots=True)
class TunnelShape:
    """The common fields of all tunnels to a resource through a gateway."""

    resource: str
    fqdn: str
    idle_seconds: int
    gateway: str
    site: Site
    selectors: tuple[Selector, ...]
    soft: Limits
    suite: Suite
    probe: Probe | None

    @classmethod
    def of(cls, resource: Resource, gateway: Gateway) -> TunnelShape:
        site, carried = site_of(gateway), selectors(resource.targets)
        return cls(
            resource.name,
            resource.fqdn,
            resource.idle_seconds,
            gateway.name,
            site,
            carried,
            Limits(resource.soft_packets, resource.soft_bytes, resource.soft_seconds),
            Suite(resource.suite or gateway.suite),
            site.probe(it.prefix for it in carried),
        )


@dataclass(frozen=True, slots=True)
class TunnelRecord:
    """An open tunnel. `pairs` holds one pair for each of `generations`.

    After `ends_at` the gateway refuses its newest keys, whose hard limit has passed; None without such a limit.
    """

    id: uuid.UUID
    device_id: uuid.UUID
    resource: str
    fqdn: str
    idle_seconds: int
    gateway: str
    path: Path
    generations: Generations
    pairs: dict[int, Pair]
    ends_at: datetime.datetime | None
    # Its successor is open at another gateway.
    leaving: bool = False
    # Its device should open it at another gateway, if one is usable.
    led_away: bool = False

    def is_like(self, other: TunnelRecord | None) -> bool:
        """Whether the entries and the device's view of both are the same."""
        return other is not None and (self.path, self.fqdn) == (other.path, other.fqdn)

    def faces(self, peer: str) -> bool:
        """Whether `peer` is of the family of the tunnel's outer addresses."""
        return mapped.family(peer) == mapped.family(self.path.gateway_address)

    def desired(self) -> DesiredTunnel:
        sas = (
            ()
            if self.leaving
            else tuple(key for pair in self._pairs(draining=False) for key in sa_keys(self.path, pair))
        )
        return DesiredTunnel(self.id, self.generations.current, sas, self._desired_entries, self)

    def policy(self) -> tuple[Entry, ...]:
        """The spd_out entries for its current generation."""
        return policy_entries(self.path, self.pairs[self.generations.current].to_device.sa_id)

    def build_refit(self, path: Path, *, without: Collection[int] = ()) -> list[Update]:
        """Updates of its inbound policies to the inner MTU of `path`, except those of the generations in `without`."""
        if path.inner_mtu == self.path.inner_mtu:
            return []
        pairs = [pair for generation, pair in self.pairs.items() if generation not in without]
        return [
            update
            for pair in pairs
            for update in modifies(inward_policy(path, pair), inward_policy(self.path, pair))
        ]

    def is_lost_at(self, link: Link | None) -> bool:
        """Whether the gateway came back without the tunnel's SAs, and fresh keys are not written yet."""
        return link is not None and (self.id, self.generations.current) in link.lost

    def build_removal(self) -> list[list[Update]]:
        """Removals of all of its entries. The entries that send traffic into it come first."""
        pairs = [update for pair in self.pairs.values() for update in remove_pair(self.path, pair)]
        return [deletes(*self.policy()), pairs]

    def _desired_entries(self) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
        vital, draining = (
            tuple(entry for pair in self._pairs(draining=drains) for entry in pair_entries(self.path, pair))
            for drains in (False, True)
        )
        # The rows of a tunnel that is leaving may be missing.
        return (
            ((), (*vital, *draining, *self.policy()))
            if self.leaving
            else ((*vital, *self.policy()), draining)
        )

    def _pairs(self, *, draining: bool) -> list[Pair]:
        return [
            pair
            for generation, pair in self.pairs.items()
            if (generation in self.generations.draining) is draining
        ]


@dataclass(frozen=True, slots=True)
class Stranded:
    """A tunnel that another gateway is to carry."""

    id: uuid.UUID
    device_id: uuid.UUID
    fqdn: str
    gateway: str


@dataclass(frozen=True, slots=True)
class Due:
    """A tunnel that needs a new decision, with the facts for it."""

    id: uuid.UUID
    generation: int
    peer_address: str
    old_version: int
    old_until: datetime.datetime
    gateway: str
    served: bool
    device: Device
    resource: Resource
    policies: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A tunnel for the console's list."""

    tunnel: Tunnel
    device: str
    user: str
    user_display_name: str | None
    resource: Resource
    gateway: str
    suite: str
    inner_address: str
    inner_address6: str | None


def parse(
    tunnel: Mapping[str, Any], sas: Sequence[Mapping[str, Any]], shape: TunnelShape, inner: Inner
) -> TunnelRecord:
    """Parse rows in the form of `to_jsonb`: thousands are read at once, for which the mapper is too slow."""
    current: int = tunnel["generation"]
    generations = {sa["generation"] for sa in sas}
    draining = frozenset(sa["generation"] for sa in sas if sa["drain_until"] is not None)
    pending = generations - draining - {current}
    renewing = max(pending) if tunnel["state"] == TunnelState.RENEWING and pending else None
    number = uuid.UUID(tunnel["id"])
    life = compute_hard(shape.soft).seconds
    made_at = max(datetime.datetime.fromisoformat(sa["made_at"]) for sa in sas) if life else None
    return TunnelRecord(
        number,
        uuid.UUID(tunnel["device_id"]),
        shape.resource,
        shape.fqdn,
        shape.idle_seconds,
        shape.gateway,
        build_path(
            number,
            tunnel["peer_address"],
            tunnel["peer_port"],
            tunnel["endpoint"],
            shape,
            inner,
            tunnel["path_mtu"],
        ),
        Generations(current, renewing, draining),
        {generation: _parse_pair(generation, sas) for generation in sorted(generations)},
        made_at + datetime.timedelta(seconds=life) if made_at else None,
        tunnel["state"] == TunnelState.LEAVING,
        tunnel["led_away"],
    )


def build_path(
    tunnel_id: uuid.UUID,
    peer_address: str,
    peer_port: int,
    endpoint: int,
    shape: TunnelShape,
    inner: Inner,
    path_mtu: int | None,
) -> Path:
    """Raises CulvertError GATEWAY_REFUSED when the gateway has no outer address of the peer's family."""
    site = shape.site
    outer = site.facing(peer_address)
    if outer is None:
        raise CulvertError(
            Reason.GATEWAY_REFUSED,
            gateway=shape.gateway,
            why=Phrase("it has no IPv6 address, but this device has"),
        )
    return Path(
        tunnel_id,
        outer.own,
        outer.public,
        inner.address,
        shape.selectors,
        peer_address,
        peer_port,
        Endpoint(endpoint),
        shape.soft,
        shape.suite,
        site.wan.mtu,
        site.lan.mtu,
        inner.address6,
        path_mtu,
        shape.probe,
    )


def _parse_pair(generation: int, sas: Sequence[Mapping[str, Any]]) -> Pair:
    of_it = {sa["direction"]: sa for sa in sas if sa["generation"] == generation}
    into, out = of_it[Direction.TO_GATEWAY], of_it[Direction.TO_DEVICE]
    return Pair(generation, _parse_numbers(into), _parse_numbers(out), Tag(into["tag"]), into["crypto_port"])


def _parse_numbers(sa: Mapping[str, Any]) -> SaNumbers:
    return SaNumbers(Spi(sa["spi"]), Slot(sa["slot"]), SaId(sa["sa_id"]))


def parse_texts(shown: str, sas: str, resource: str, gateway: str, inner: str) -> TunnelRecord:
    return parse(json.loads(shown), json.loads(sas), parse_shape(resource, gateway), parse_inner(inner))


def parse_possible(shown: str, sas: str, resource: str, gateway: str, inner: str) -> TunnelRecord | None:
    """None for a tunnel that its gateway cannot carry."""
    site = parse_gateway(gateway)
    if not parse_inner(inner).belongs(site.pool, site.pool6):
        return None
    try:
        return parse_texts(shown, sas, resource, gateway, inner)
    except CulvertError:
        return None


# Cached: many tunnels share few resources and gateways. The shared objects must not be changed.
@functools.lru_cache(maxsize=4096)
def parse_resource(shown: str) -> Resource:
    return from_json(Resource, shown)


def parse_inner(shown: str) -> Inner:
    found = json.loads(shown)
    return Inner(found["address"], found["address6"])


@functools.lru_cache(maxsize=256)
def parse_gateway(shown: str) -> Gateway:
    return from_json(Gateway, shown)


@functools.lru_cache(maxsize=4096)
def parse_shape(resource: str, gateway: str) -> TunnelShape:
    return TunnelShape.of(parse_resource(resource), parse_gateway(gateway))
