"""SQL about which tunnels and gateways live."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from culvert_db import Gateway, Resource, ResourceGateway, SecurityAssociation, Tunnel
from culvert_proto import Reason
from sqlalchemy import BigInteger, any_, cast, exists, false, or_, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from culvert_service.tunnels.silence import Carried


@dataclass(frozen=True, slots=True)
class Stranded:
    """A tunnel that another gateway is to carry. `works`: the one that carries it does still."""

    id: uuid.UUID
    device_id: uuid.UUID
    fqdn: str
    gateway: str
    why: Reason

    @property
    def works(self) -> bool:
        return self.why is not Reason.GATEWAY_DOWN


async def stranded(
    session: AsyncSession, gone: Collection[str], drains: Collection[str], usable: Collection[str]
) -> list[Stranded]:
    """Tunnels at gateways that are `gone` or drain, and those led away, to what one that is `usable` serves as well."""
    leaves = (*gone, *drains)
    mine, other = aliased(ResourceGateway), aliased(Gateway)
    its_place = (
        select(mine.position)
        .where(mine.resource_id == Tunnel.resource_id, mine.gateway_id == Tunnel.gateway_id)
        .correlate(Tunnel)
        .scalar_subquery()
    )
    leaving = Gateway.name.in_(leaves) if leaves else false()
    served = (
        exists()
        .where(ResourceGateway.resource_id == Tunnel.resource_id, ResourceGateway.gateway_id == other.id)
        .where(other.name.in_(usable))
        # A tunnel at a gateway that works moves only to gateways that are tried before it.
        .where(or_(leaving, its_place.is_(None), ResourceGateway.position < its_place))
    )
    query = (
        select(Tunnel.id, Tunnel.device_id, Resource.fqdn, Gateway.name)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .where(or_(Tunnel.led_away, leaving), served, Tunnel.stays())
        .order_by(Tunnel.opened_at)
    )

    def why(gateway: str) -> Reason:
        if gateway in gone:
            return Reason.GATEWAY_DOWN
        return Reason.GATEWAY_DRAINING if gateway in drains else Reason.GATEWAY_REPLACED

    found = await session.execute(query)
    return [Stranded(number, device, fqdn, at, why(at)) for number, device, fqdn, at in found]


async def carried(session: AsyncSession, gateway_id: int, sa_ids: Collection[int]) -> dict[int, Carried]:
    """The tunnels of those SAs that there are."""
    sa = SecurityAssociation
    query = (
        select(sa.sa_id, Tunnel.id, Tunnel.device_id, sa.generation, Resource.idle_seconds)
        .join(Tunnel, Tunnel.id == sa.tunnel_id)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .where(sa.gateway_id == gateway_id, sa.sa_id == any_(cast(list(sa_ids), ARRAY(BigInteger))))
    )
    return {row[0]: Carried(*row[1:]) for row in await session.execute(query)}
