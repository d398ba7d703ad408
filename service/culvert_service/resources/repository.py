"""SQL about resources."""

from __future__ import annotations

from collections.abc import Sequence

from culvert_db import Gateway, Grant, Resource, ResourceGateway, User
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import selectinload


async def all_resources(session: AsyncSession) -> Sequence[Resource]:
    return (await session.scalars(_whole().order_by(Resource.fqdn))).all()


async def by_name(session: AsyncSession, name: str) -> Resource | None:
    return await session.scalar(_whole().where(Resource.name == name))


async def lock(session: AsyncSession, name: str) -> Resource | None:
    """No tunnel to it can be opened until this transaction ends."""
    return await session.scalar(select(Resource).where(Resource.name == name).with_for_update())


async def granted_to(session: AsyncSession, user_id: int) -> Sequence[Resource]:
    query = select(Resource).join(Grant).where(Grant.user_id == user_id).order_by(Resource.fqdn)
    return (await session.scalars(query)).all()


async def gateways_named(session: AsyncSession, names: Sequence[str]) -> dict[str, Gateway]:
    found = await session.scalars(select(Gateway).where(Gateway.name.in_(names)))
    return {gateway.name: gateway for gateway in found}


async def users_named(session: AsyncSession, names: Sequence[str]) -> dict[str, User]:
    found = await session.scalars(select(User).where(User.name.in_(names)))
    return {user.name: user for user in found}


def _whole() -> Select[Resource]:
    return select(Resource).options(
        selectinload(Resource.gateways).joinedload(ResourceGateway.gateway),
        selectinload(Resource.grants).joinedload(Grant.user),
    )
