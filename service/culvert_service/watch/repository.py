"""SQL about pushes to devices, and about the controllers of their streams."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from culvert_db import PUSHES_CHANNEL, Device, Push, PushKind, notify
from sqlalchemy import ARRAY, Uuid, any_, cast, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

# 30 s is longer than any transaction that stores pushes.
_SETTLED = text("SELECT max(id) FROM pushes WHERE at < now() - interval '30 seconds'")
_NEWS = text("""
SELECT id, device_id, kind, body FROM pushes
WHERE id > :low AND holder <> :holder AND id <> ALL (CAST(:seen AS bigint[])) ORDER BY id
""")
# A device that is offline for longer finds out by itself: its packets are not answered, or its keys end.
_CLEAN = text("DELETE FROM pushes WHERE at < now() - interval '1 hour'")


async def read_settled(session: AsyncSession) -> int | None:
    """An id below which no push can appear any more; None without pushes that old."""
    return await session.scalar(_SETTLED)


async def news(
    session: AsyncSession, low: int, holder: str, seen: Collection[int]
) -> Sequence[tuple[int, uuid.UUID, str, bytes]]:
    """Id, device, kind and body of the pushes by other controllers above `low` that are not `seen`."""
    rows = await session.execute(_NEWS, {"low": low, "holder": holder, "seen": list(seen)})
    return [tuple(row) for row in rows]


async def add_pushes(session: AsyncSession, rows: Sequence[Mapping[str, Any]]) -> None:
    await session.execute(insert(Push), rows)


async def tell_controllers(session: AsyncSession) -> None:
    """Notify all controllers of new pushes, once this commits."""
    await notify(session, PUSHES_CHANNEL)


async def events(session: AsyncSession, devices: Collection[uuid.UUID]) -> dict[uuid.UUID, list[bytes]]:
    """The bodies of each device's events, oldest first."""
    query = select(Push.device_id, Push.body).where(
        Push.device_id == any_(cast(list(devices), ARRAY(Uuid))), Push.kind == PushKind.EVENT
    )
    found: defaultdict[uuid.UUID, list[bytes]] = defaultdict(list)
    for device_id, body in await session.execute(query.order_by(Push.id)):
        found[device_id].append(body)
    return found


async def clean_pushes(session: AsyncSession) -> None:
    await session.execute(_CLEAN)


async def keep_watched(
    session: AsyncSession,
    devices: Collection[uuid.UUID],
    holder: str,
    at: datetime.datetime,
    until: datetime.datetime,
) -> set[uuid.UUID]:
    """Update these devices, except locked ones, which are opening a tunnel. Returns the updated devices."""
    free = select(Device.id).where(Device.id.in_(devices), Device.watched_by == holder)
    free = free.with_for_update(skip_locked=True, key_share=True)
    told = update(Device).where(Device.id.in_(free.scalar_subquery()))
    values = {"last_seen_at": at, "watched_until": until}
    return set(await session.scalars(told.values(values).returning(Device.id)))


async def end_watched(session: AsyncSession, devices: Collection[uuid.UUID], holder: str) -> None:
    which = Device.id.in_(devices), Device.watched_by == holder
    await session.execute(update(Device).where(*which).values(watched_by=None, watched_until=None))
