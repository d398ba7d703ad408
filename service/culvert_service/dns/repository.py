"""SQL about published names."""

from __future__ import annotations

from collections.abc import Sequence

from culvert_db import DnsRecord
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession


async def records(session: AsyncSession) -> Sequence[DnsRecord]:
    return (await session.scalars(select(DnsRecord).order_by(DnsRecord.name, DnsRecord.type))).all()
