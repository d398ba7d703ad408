"""A tunnel as its rows tell it, parsed once."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from culvert_db import Direction, Gateway, Resource, SecurityAssociation, Tunnel, TunnelState

from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.entry import Entry, Update, deletes
from culvert_service.gateways.limits import Limits
from culvert_service.gateways.sa import SaId, SaNumbers, Slot, Spi
from culvert_service.gateways.tunnel_entries import Pair, Path, pair_entries, policy_entry, remove_pair
from culvert_service.sessions.lifecycle import Session


@dataclass(frozen=True, slots=True)
class TunnelRecord:
    """An open tunnel. `pairs` holds one pair for each generation of `session`."""

    id: uuid.UUID
    device_id: uuid.UUID
    resource: str
    fqdn: str
    idle_seconds: int
    gateway: str
    path: Path
    session: Session
    pairs: dict[int, Pair]

    def desired(self) -> DesiredTunnel:
        draining = [pair for generation, pair in self.pairs.items() if generation in self.session.draining]
        vital = [pair for generation, pair in self.pairs.items() if generation not in self.session.draining]
        return DesiredTunnel(
            self.id, self.session.current, (*self._entries(vital), self.policy()), self._entries(draining)
        )

    def policy(self) -> Entry:
        """Its spd_out entry now."""
        return policy_entry(self.path, self.pairs[self.session.current].to_device.sa_id)

    def removal(self) -> list[list[Update]]:
        """Everything that it has on its gateway: first what sends traffic into it."""
        pairs = [update for pair in self.pairs.values() for update in remove_pair(self.path, pair)]
        return [deletes(self.policy()), pairs]

    def _entries(self, pairs: list[Pair]) -> tuple[Entry, ...]:
        return tuple(entry for pair in pairs for entry in pair_entries(self.path, pair))


def parse(tunnel: Tunnel, resource: Resource, gateway: Gateway, inner_address: str) -> TunnelRecord:
    """`tunnel.sas` must be loaded."""
    generations = {sa.generation for sa in tunnel.sas}
    draining = frozenset(sa.generation for sa in tunnel.sas if sa.drain_until is not None)
    pending = generations - draining - {tunnel.generation}
    renewing = max(pending) if tunnel.state is TunnelState.RENEWING and pending else None
    return TunnelRecord(
        tunnel.id,
        tunnel.device_id,
        resource.name,
        resource.fqdn,
        resource.idle_seconds,
        gateway.name,
        path_of(tunnel, resource, gateway, inner_address),
        Session(tunnel.generation, renewing, draining),
        {generation: _pair(generation, tunnel.sas) for generation in sorted(generations)},
    )


def path_of(tunnel: Tunnel, resource: Resource, gateway: Gateway, inner_address: str) -> Path:
    soft = Limits(resource.soft_packets, resource.soft_bytes, resource.soft_seconds)
    return Path(
        tunnel.id,
        gateway.address,
        inner_address,
        resource.address,
        tunnel.peer_address,
        tunnel.peer_port,
        soft,
    )


def _pair(generation: int, sas: list[SecurityAssociation]) -> Pair:
    numbers = {
        sa.direction: SaNumbers(Spi(sa.spi), Slot(sa.slot), SaId(sa.sa_id))
        for sa in sas
        if sa.generation == generation
    }
    return Pair(generation, numbers[Direction.TO_GATEWAY], numbers[Direction.TO_DEVICE])
