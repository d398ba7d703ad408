"""SQL about which tunnels and gateways live."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from culvert_db import Gateway, Resource, ResourceGateway, SecurityAssociation, Tunnel, TunnelState
from sqlalchemy import BigInteger, any_, cast, exists, or_, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from culvert_service.sessions.silence import Carried


@dataclass(frozen=True, slots=True)
class Stranded:
    """A tunnel that another gateway is to carry. `drains`: the one that carries it does still."""

    id: uuid.UUID
    device_id: uuid.UUID
    gateway: str
    drains: bool


async def stranded(session: AsyncSession, gone: Sequence[str], usable: Sequence[str]) -> list[Stranded]:
    """At gateways that are `gone` or drain, the tunnels to what one that is `usable` serves as well."""
    other = aliased(Gateway)
    served = (
        exists()
        .where(ResourceGateway.resource_id == Tunnel.resource_id, ResourceGateway.gateway_id == other.id)
        .where(other.name.in_(usable))
    )
    is_gone = Gateway.name.in_(gone)
    query = (
        select(Tunnel.id, Tunnel.device_id, Gateway.name, ~is_gone)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .where(or_(is_gone, Gateway.draining_since.is_not(None)), served, Tunnel.state != TunnelState.LEAVING)
        .order_by(Tunnel.opened_at)
    )
    return [Stranded(*row) for row in await session.execute(query)]


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
