"""What opening, renewing and activating share: numbers and keys for a pair, then the gateway, then the commit."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from culvert_db import Direct, why_away
from culvert_proto import CulvertError, Reason
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.gateways.entry import Update
from culvert_service.gateways.link import Link
from culvert_service.gateways.sa import Tag
from culvert_service.gateways.tunnel_entries import Pair
from culvert_service.sessions import repository


async def allocate_pair(
    session: Direct,
    tunnel_id: uuid.UUID,
    device_id: uuid.UUID,
    link: Link,
    generation: int,
    tag: Tag,
    *,
    renewing: bool = False,
) -> Pair:
    """Raises CulvertError GATEWAY_REFUSED."""
    pair = await repository.insert_pair(
        session, tunnel_id, device_id, link.config.id, generation, tag, renewing=renewing
    )
    if pair is None:
        raise CulvertError(Reason.GATEWAY_REFUSED, gateway=link.name, why="it has no free SA numbers")
    return pair


async def program_and_commit(
    session: AsyncSession | Direct,
    link: Link,
    batches: Sequence[Sequence[Update]],
    programmed: Callable[[], None] = lambda: None,
) -> None:
    """Either both the gateway and the database have it, or neither. Raises CulvertError, or the database's error."""
    async with link.writing():
        await link.apply(batches)
        programmed()
        try:
            await session.commit()
        except BaseException as error:
            await link.undo(batches)
            if why_away(error) is not None:
                # The commit may have succeeded before the connection broke.
                link.reconcile_soon()
            raise
