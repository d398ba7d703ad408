"""SQL about permissions: which tunnels are to be decided about anew."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from culvert_db import (
    Device,
    Gateway,
    Resource,
    ResourceGateway,
    Tunnel,
    doubted,
)
from sqlalchemy import (
    ColumnElement,
    Table,
    and_,
    bindparam,
    exists,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import contains_eager

from culvert_service.decision.facts import POLICIES, VERSION

_TUNNELS = cast("Table", Tunnel.__table__)
_PERMIT = (
    update(_TUNNELS)
    .where(
        _TUNNELS.c.id == bindparam("was_id"),
        _TUNNELS.c.generation == bindparam("was_generation"),
        _TUNNELS.c.peer_address == bindparam("was_at"),
        _TUNNELS.c.policy_version == bindparam("was_version"),
        _TUNNELS.c.permitted_until == bindparam("was_until"),
    )
    .values(permitted_until=bindparam("permitted_until"), policy_version=bindparam("policy_version"))
)
# Whether its gateway still is one of its resource's.
_SERVED = exists().where(
    ResourceGateway.resource_id == Tunnel.resource_id, ResourceGateway.gateway_id == Tunnel.gateway_id
)


@dataclass(frozen=True, slots=True)
class Due:
    """A tunnel that has to be decided about anew, with what the decision needs."""

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

    def as_it_was(self) -> ColumnElement[bool]:
        """Not one that was opened anew, or has moved again, since."""
        return and_(
            Tunnel.id == self.id,
            Tunnel.generation == self.generation,
            Tunnel.peer_address == self.peer_address,
            Tunnel.policy_version == self.old_version,
        )


async def due(session: AsyncSession, now: datetime.datetime, limit: int | None) -> list[Due]:
    """None: all of them."""
    query = (
        select(
            Tunnel.id,
            Tunnel.generation,
            Tunnel.peer_address,
            Tunnel.policy_version,
            Tunnel.permitted_until,
            Gateway.name,
            _SERVED,
            Device,
            Resource,
            POLICIES,
            VERSION,
        )
        .join(Device, Device.id == Tunnel.device_id)
        .join(Device.user)
        .options(contains_eager(Device.user))
        .join(Resource, Resource.id == Tunnel.resource_id)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .where(or_(Tunnel.permitted_until <= now, Tunnel.policy_version != VERSION))
        .limit(limit)
    )
    return [Due(*row) for row in await session.execute(query)]


async def permit(session: AsyncSession, permitted: Sequence[tuple[Due, datetime.datetime]]) -> None:
    """Until when. What has changed in the meantime stays due."""
    rows = [
        {
            "was_id": tunnel.id,
            "was_generation": tunnel.generation,
            "was_at": tunnel.peer_address,
            "was_version": tunnel.old_version,
            "was_until": tunnel.old_until,
            "permitted_until": until,
            "policy_version": tunnel.version,
        }
        for tunnel, until in permitted
    ]
    await (await session.connection()).execute(_PERMIT, rows)


async def doubt_all(session: AsyncSession) -> None:
    await session.execute(update(Tunnel).values(policy_version=doubted()))


async def policy_version(session: AsyncSession) -> int:
    return await session.scalar(select(VERSION)) or 0
