"""SQL about gateways."""

from __future__ import annotations

from collections.abc import Sequence

from culvert_db import Gateway, Resource, ResourceGateway, Tunnel
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession


async def by_name(session: AsyncSession, name: str) -> Gateway | None:
    return await session.scalar(select(Gateway).where(Gateway.name == name))


async def lock(session: AsyncSession, name: str) -> Gateway | None:
    """No tunnel can be opened through it until this transaction ends; those that are open may get new keys."""
    return await session.scalar(select(Gateway).where(Gateway.name == name).with_for_update(key_share=True))


async def resources_through(session: AsyncSession, gateway_id: int) -> Sequence[Resource]:
    query = select(Resource).join(ResourceGateway, ResourceGateway.resource_id == Resource.id)
    found = await session.scalars(
        query.where(ResourceGateway.gateway_id == gateway_id).order_by(Resource.name)
    )
    return found.all()


async def uses(session: AsyncSession, gateway_id: int) -> str:
    """In words; empty when nothing uses it."""
    resources = await resources_through(session, gateway_id)
    tunnels = await session.scalar(
        select(func.count()).select_from(Tunnel).where(Tunnel.gateway_id == gateway_id)
    )
    said = [f"it serves {', '.join(resource.name for resource in resources)}"] if resources else []
    return " and ".join(said + ([f"{tunnels} of its tunnels are open"] if tunnels else []))
