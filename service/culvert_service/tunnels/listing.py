"""SQL of the admin's list of tunnels."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from culvert_db import (
    Address,
    Device,
    Gateway,
    Resource,
    Tunnel,
    User,
)
from sqlalchemy import (
    Select,
    and_,
    func,
    select,
)
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.rest.page import Cut


@dataclass(frozen=True, slots=True)
class Listed:
    """A tunnel for the admin's list."""

    tunnel: Tunnel
    device: str
    user: str
    resource: Resource
    gateway: str
    suite: str
    inner_address: str
    inner_address6: str | None


async def listed(session: AsyncSession, cut: Cut) -> list[Listed]:
    query = cut.of(_listing(), Tunnel.opened_at, Tunnel.id)
    return [Listed(*row) for row in await session.execute(query)]


async def listed_by_id(session: AsyncSession, ids: Sequence[uuid.UUID]) -> list[Listed]:
    return [Listed(*row) for row in await session.execute(_listing().where(Tunnel.id.in_(ids)))]


def _listing() -> Select[Tunnel, str, str, Resource, str, str, str, str | None]:
    suite = func.coalesce(Resource.suite, Gateway.suite)
    return (
        select(
            Tunnel, Device.name, User.name, Resource, Gateway.name, suite, Address.address, Address.address6
        )
        .join(Device, Device.id == Tunnel.device_id)
        .join(User, User.id == Device.user_id)
        .join(Resource, Resource.id == Tunnel.resource_id)
        .join(Gateway, Gateway.id == Tunnel.gateway_id)
        .join(Address, and_(Address.gateway_id == Tunnel.gateway_id, Address.device_id == Tunnel.device_id))
        .where(Tunnel.stays())
    )
