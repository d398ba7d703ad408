"""Reads the profiles of many devices at once: after a change, thousands of streams ask for theirs at the same moment.

stream ─┐                                   ┌─► certificate checked, profile built ─► stream
stream ─┼─► Batches ─► one snapshot of all ─┤
stream ─┘                                   └─► certificate refused ────────────────► stream

A snapshot serves its own batch alone, so a profile is never older than the change that it is sent for.
"""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from culvert_db import Database
from culvert_proto import agent_pb2

from culvert_service.agent import messages, repository
from culvert_service.batches import Batches
from culvert_service.decision.decision import GatewayFact, in_turn
from culvert_service.dns.managed import ManagedZones
from culvert_service.gateways.fleet import Fleet, Standing
from culvert_service.identity.service import check_certificate
from culvert_service.tunnels.inner_addresses import assign_early_at

# Larger batches save little, and OpenTunnel would wait for all streams of a batch in one turn of the event loop.
BATCH = 64
# Devices that get their addresses at once. Otherwise, for a new gateway, streams would take all connections to the
# database, and OpenTunnel would get none.
_ASSIGNED_AT_ONCE = 4


class Profiles:
    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        managed_zones: ManagedZones,
        protected_prefixes: Sequence[str],
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._database = database
        self._fleet = fleet
        self._managed_zones = managed_zones
        self._protected_prefixes = protected_prefixes
        self._now = now
        self._snapshots = Batches("profiles", self._read_snapshot, most=BATCH)
        self._assigning = asyncio.Semaphore(_ASSIGNED_AT_ONCE)

    async def start(self) -> None:
        """Nothing to do: reads begin with the calls."""

    async def stop(self) -> None:
        """Must be called after the streams have ended."""
        await self._snapshots.stop()

    async def read(self, fingerprint: bytes) -> agent_pb2.Profile:
        """The profile of the device behind a certificate. Raises CulvertError as `check_certificate`.

        Assigns the device inner addresses at the first gateway of each resource, while the pools have room.
        """
        snapshot = await self._snapshots.ask(fingerprint)
        facts = snapshot.facts
        device = check_certificate(facts.devices.get(fingerprint), fingerprint, self._now())
        reach = snapshot.find_reach(device.id, facts.reachable[device.user_id])
        inner = facts.inner.get(device.id, {})
        if missing := reach.first - inner.keys():
            async with self._assigning:
                inner = {**inner, **await assign_early_at(self._database, missing, device.id)}
        return messages.profile(
            device,
            reach.resources,
            snapshot.standings,
            inner,
            self._managed_zones.names,
            self._protected_prefixes,
            self._managed_zones.with_denial_page,
            self._now(),
        )

    async def _read_snapshot(self, fingerprints: Sequence[bytes]) -> _Snapshot:
        facts = await repository.read_facts(self._database, fingerprints)
        return _Snapshot(facts, self._fleet.standings())


@dataclass(frozen=True, slots=True)
class _Reach:
    """`resources`: of a profile, serialised. `first`: the first gateway of each."""

    resources: bytes
    first: frozenset[str]


class _Snapshot:
    """The facts about the devices of one batch. Makes each resource's message once for all of them."""

    def __init__(self, facts: repository.Facts, standings: Sequence[Standing]) -> None:
        self.facts = facts
        self.standings = standings
        standing = {it.config.name: it for it in standings}
        self._serving = {
            resource: [_describe(standing, name, weight) for name, weight in gateways]
            for resource, gateways in facts.serving.items()
        }
        # With weights, the order of a resource's gateways differs from device to device.
        self._weighted = {
            resource for resource, gateways in self._serving.items() if any(it.weight for it in gateways)
        }
        self._messages: dict[tuple[int, Sequence[str]], bytes] = {}
        self._reaches: dict[frozenset[int], _Reach] = {}

    def find_reach(self, device_id: uuid.UUID, reachable: frozenset[int]) -> _Reach:
        if not self._weighted.isdisjoint(reachable):
            return self._build_reach(device_id, reachable)
        found = self._reaches.get(reachable)
        if found is None:
            found = self._reaches[reachable] = self._build_reach(device_id, reachable)
        return found

    def _build_reach(self, device_id: uuid.UUID, reachable: frozenset[int]) -> _Reach:
        pieces: list[bytes] = []
        first: set[str] = set()
        for resource in self.facts.resources:
            if resource.id not in reachable:
                continue
            names = _order_names(device_id, self._serving.get(resource.id, ()))
            first.update(names[:1])
            piece = self._messages.get((resource.id, names))
            if piece is None:
                piece = self._messages[resource.id, names] = messages.profile_resource(resource, names)
            pieces.append(piece)
        return _Reach(b"".join(pieces), frozenset(first))


def _describe(standings: Mapping[str, Standing], name: str, weight: int | None) -> GatewayFact:
    standing = standings.get(name)
    if standing is None:
        return GatewayFact(name, online=False, weight=weight)
    return GatewayFact(name, standing.online, standing.draining, weight)


def _order_names(device_id: uuid.UUID, serving: Sequence[GatewayFact]) -> tuple[str, ...]:
    """The names of the usable gateways in order; all gateways when none is usable."""
    order = in_turn(device_id, serving)
    able = tuple(it.name for it in order if it.obstacle() is None)
    return able or tuple(it.name for it in order)
