"""SQL about certificates by ACME."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from culvert_db import AcmeCertificate, LiveController
from sqlalchemy import Update, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

_HELD = datetime.timedelta(seconds=30)


async def make(session: AsyncSession, directory: str, name: str) -> None:
    """Make the row unless it is there."""
    await session.execute(
        insert(AcmeCertificate).values(directory=directory, name=name).on_conflict_do_nothing()
    )


async def read(session: AsyncSession, directory: str, name: str) -> AcmeCertificate | None:
    return await session.get(AcmeCertificate, (directory, name))


async def lock(session: AsyncSession, directory: str, name: str) -> AcmeCertificate | None:
    return await session.get(AcmeCertificate, (directory, name), with_for_update=True)


async def hold(session: AsyncSession, directory: str, name: str, holder: str) -> None:
    """Become the holder of a locked row."""
    await session.execute(_update(directory, name).values(holder=holder, held_until=func.now() + _HELD))


async def keep(session: AsyncSession, directory: str, name: str, holder: str) -> bool:
    """Hold it for longer. False: another controller has it."""
    return await write(session, directory, name, holder, held_until=func.now() + _HELD)


async def write(session: AsyncSession, directory: str, name: str, me: str, /, **values: object) -> bool:
    """Change columns as the holder. False: it is not the holder any more."""
    changed = _update(directory, name).where(AcmeCertificate.holder == me).values(**values)
    return await session.scalar(changed.returning(AcmeCertificate.name)) is not None


async def others(session: AsyncSession, holder: str) -> Sequence[str]:
    """The other controllers that run."""
    found = select(LiveController.holder).where(
        LiveController.ends_at > func.now(), LiveController.holder != holder
    )
    return (await session.scalars(found)).all()


def _update(directory: str, name: str) -> Update:
    return update(AcmeCertificate).where(AcmeCertificate.directory == directory, AcmeCertificate.name == name)
