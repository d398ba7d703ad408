"""A tunnel as its rows tell it, parsed once."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass

from culvert_db import Direction, Gateway, Resource, SecurityAssociation, Tunnel, TunnelState
from culvert_proto import CulvertError, Reason

from culvert_service.gateways import mapped
from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.entry import Entry, Update, deletes
from culvert_service.gateways.limits import Limits, hard
from culvert_service.gateways.record import site_of
from culvert_service.gateways.sa import Endpoint, SaId, SaNumbers, Slot, Spi, Tag
from culvert_service.gateways.suite import Suite
from culvert_service.gateways.tunnel_entries import Pair, Path, pair_entries, policy_entries, remove_pair
from culvert_service.resources.target import selectors
from culvert_service.sessions.lifecycle import Session
from culvert_service.sessions.pool import Inner


@dataclass(frozen=True, slots=True)
class TunnelRecord:
    """An open tunnel. `pairs` holds one pair for each generation of `session`.

    After `ends_at` the gateway refuses its newest keys, whose hard limit has passed; None without such a limit.
    """

    id: uuid.UUID
    device_id: uuid.UUID
    resource: str
    fqdn: str
    idle_seconds: int
    gateway: str
    path: Path
    session: Session
    pairs: dict[int, Pair]
    ends_at: datetime.datetime | None
    # Its successor is up at another gateway.
    leaving: bool = False

    def is_like(self, other: TunnelRecord | None) -> bool:
        """Whether a device and a gateway that know the one know the other."""
        return other is not None and (self.path, self.fqdn) == (other.path, other.fqdn)

    def faces(self, peer: str) -> bool:
        """Whether `peer` is of the family of the tunnel's outer addresses."""
        return mapped.family(peer) == mapped.family(self.path.gateway_address)

    def desired(self) -> DesiredTunnel:
        if self.leaving:
            every = (*self._entries(list(self.pairs.values())), *self.policy())
            return DesiredTunnel(self.id, self.session.current, (), every, self)
        draining = [pair for generation, pair in self.pairs.items() if generation in self.session.draining]
        vital = [pair for generation, pair in self.pairs.items() if generation not in self.session.draining]
        return DesiredTunnel(
            self.id,
            self.session.current,
            (*self._entries(vital), *self.policy()),
            self._entries(draining),
            self,
        )

    def policy(self) -> tuple[Entry, ...]:
        """Its spd_out entries now."""
        return policy_entries(self.path, self.pairs[self.session.current].to_device.sa_id)

    def removal(self) -> list[list[Update]]:
        """Everything that it has on its gateway: first what sends traffic into it."""
        pairs = [update for pair in self.pairs.values() for update in remove_pair(self.path, pair)]
        return [deletes(*self.policy()), pairs]

    def _entries(self, pairs: list[Pair]) -> tuple[Entry, ...]:
        return tuple(entry for pair in pairs for entry in pair_entries(self.path, pair))


def parse(tunnel: Tunnel, resource: Resource, gateway: Gateway, inner: Inner) -> TunnelRecord:
    """`tunnel.sas` must be loaded."""
    generations = {sa.generation for sa in tunnel.sas}
    draining = frozenset(sa.generation for sa in tunnel.sas if sa.drain_until is not None)
    pending = generations - draining - {tunnel.generation}
    renewing = max(pending) if tunnel.state is TunnelState.RENEWING and pending else None
    path = path_of(tunnel, resource, gateway, inner)
    life = hard(path.soft).seconds
    made_at = max(sa.made_at for sa in tunnel.sas)
    return TunnelRecord(
        tunnel.id,
        tunnel.device_id,
        resource.name,
        resource.fqdn,
        resource.idle_seconds,
        gateway.name,
        path,
        Session(tunnel.generation, renewing, draining),
        {generation: _pair(generation, tunnel.sas) for generation in sorted(generations)},
        made_at + datetime.timedelta(seconds=life) if life else None,
        tunnel.state is TunnelState.LEAVING,
    )


def path_of(tunnel: Tunnel, resource: Resource, gateway: Gateway, inner: Inner) -> Path:
    """Raises CulvertError GATEWAY_REFUSED when the gateway has no outer address of the peer's family."""
    site = site_of(gateway)
    outer = site.facing(tunnel.peer_address)
    if outer is None:
        raise CulvertError(
            Reason.GATEWAY_REFUSED, gateway=gateway.name, why="it has no IPv6 address, but this device has"
        )
    soft = Limits(resource.soft_packets, resource.soft_bytes, resource.soft_seconds)
    return Path(
        tunnel.id,
        outer,
        inner.address,
        selectors(resource.targets),
        tunnel.peer_address,
        tunnel.peer_port,
        Endpoint(tunnel.endpoint),
        soft,
        Suite(resource.suite or gateway.suite),
        site.wan.mtu,
        site.lan.mtu,
        inner.address6,
    )


def _pair(generation: int, sas: list[SecurityAssociation]) -> Pair:
    of_it = {sa.direction: sa for sa in sas if sa.generation == generation}
    numbers = {
        direction: SaNumbers(Spi(sa.spi), Slot(sa.slot), SaId(sa.sa_id)) for direction, sa in of_it.items()
    }
    tag = Tag(of_it[Direction.TO_GATEWAY].tag)
    return Pair(generation, numbers[Direction.TO_GATEWAY], numbers[Direction.TO_DEVICE], tag)
