"""The database server's clock, and its notifications (NOTIFY)."""

from __future__ import annotations

import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession


async def clock(session: AsyncSession) -> datetime.datetime:
    """The time at which the transaction began. Ages of SAs are counted by it, because a program's clock may jump."""
    return (await session.execute(select(func.now()))).scalar_one()


async def notify(session: AsyncSession, channel: str, payload: str = "") -> None:
    """Send `payload` to all who listen to `channel`, when this transaction has committed."""
    await session.execute(select(func.pg_notify(channel, payload)))
