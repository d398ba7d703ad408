"""SQL about gateways."""

from __future__ import annotations

from culvert_db import Gateway
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession


async def by_name(session: AsyncSession, name: str) -> Gateway | None:
    return await session.scalar(select(Gateway).where(Gateway.name == name))
