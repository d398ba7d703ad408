"""What gateways are to hold, and what they tell about it: devices' tunnels, and those between gateways."""

from __future__ import annotations

from collections.abc import Sequence

from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.link import Link
from culvert_service.gateways.reconcile import reconcile
from culvert_service.sessions.service import Tunnels
from culvert_service.site_tunnels.service import SiteTunnels


class GatewayState:
    def __init__(self, tunnels: Tunnels, site_tunnels: SiteTunnels) -> None:
        self._tunnels = tunnels
        self._site_tunnels = site_tunnels

    async def reconcile(self, link: Link) -> None:
        await reconcile(link, self._desired, self._lost)

    async def soft_limit(self, link: Link, sa_id: int) -> None:
        await self._tunnels.soft_limit(link, sa_id)
        await self._site_tunnels.soft_limit(link, sa_id)

    async def _desired(self, gateway_id: int) -> Sequence[DesiredTunnel]:
        between = await self._site_tunnels.desired(gateway_id)
        return [*between, *await self._tunnels.desired(gateway_id)]

    async def _lost(self, link: Link, lost: Sequence[DesiredTunnel]) -> None:
        await self._tunnels.lost(link, await self._site_tunnels.lost(link, lost))
