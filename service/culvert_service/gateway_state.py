"""The desired state and the reports of gateways, for devices' tunnels and site tunnels together."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Collection, Sequence

from culvert_db import Database
from culvert_proto import CulvertError

from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.health import Drift
from culvert_service.gateways.kek_rotation import KekRotation
from culvert_service.gateways.link import Link
from culvert_service.gateways.reconcile import reconcile
from culvert_service.metrics.instruments import Instruments
from culvert_service.pki.master_key import MasterKey
from culvert_service.site_tunnels.service import SiteTunnels
from culvert_service.tunnels.service import Tunnels

# A gateway repeats a soft limit's digest; the device, or the site tunnel, is told at most once in this time.
_REPEAT_SECONDS = 1.0


class GatewayState:
    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        master_key: MasterKey,
        tunnels: Tunnels,
        site_tunnels: SiteTunnels,
        instruments: Instruments,
        lease_seconds: float,
        desires: Database,
    ) -> None:
        """`desires`: the pool that reads the desired entries. It is apart from `database`, because set-ups wait for the
        gateway during that read: where a pooler has few connections, the read would wait for their transactions.
        """
        self.rotation = KekRotation(database, fleet, master_key, self, lease_seconds)
        self._desires = desires
        self._tunnels = tunnels
        self._site_tunnels = site_tunnels
        self._instruments = instruments
        # The time of each SA's digest that was handed on, oldest first.
        self._handed_on: dict[tuple[int, int], float] = {}

    async def reconcile(self, link: Link) -> None:
        if not link.online:
            await self.rotation.check(link)
        began, drifts = time.perf_counter(), link.report().drifts
        await reconcile(link, self)
        report = link.report()
        drift = report.last if report.drifts > drifts else Drift()
        self._instruments.count_reconciliation(link.name, time.perf_counter() - began, drift)

    async def soft_limit(self, link: Link, sa_id: int) -> None:
        """For a gateway's digest."""
        key, now = (link.config.id, sa_id), time.monotonic()
        while self._handed_on and now - next(iter(self._handed_on.values())) >= _REPEAT_SECONDS:
            del self._handed_on[next(iter(self._handed_on))]
        if key in self._handed_on:
            return
        self._handed_on[key] = now
        await self._tunnels.soft_limit(link, sa_id)
        await self._site_tunnels.soft_limit(link, sa_id)

    def record_roaming(self, link: Link, sa_id: int, peer_address: str, peer_port: int) -> None:
        """For a gateway's digest."""
        self._tunnels.record_roaming(link, sa_id, peer_address, peer_port)

    async def read_desired(self, gateway_id: int) -> AsyncGenerator[Sequence[DesiredTunnel]]:
        yield await self._site_tunnels.read_desired(self._desires, gateway_id)
        async for portion in self._tunnels.read_desired(self._desires, gateway_id):
            yield portion

    async def close_sas(self, link: Link, sa_ids: Collection[int], why: CulvertError) -> None:
        """Close the tunnels of devices that use these SAs."""
        await self._tunnels.close_sas(link, sa_ids, why)

    async def restore_lost(self, link: Link, lost: Sequence[DesiredTunnel]) -> None:
        """Handle tunnels whose SAs the gateway has lost: devices' tunnels and site tunnels."""
        await self._tunnels.restore_lost(link, await self._site_tunnels.restore_lost(link, lost))
