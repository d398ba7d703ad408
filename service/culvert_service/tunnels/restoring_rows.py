"""SQL about many tunnels that get new pairs at once."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from culvert_db import Direction
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.gateways.tunnel_entries import Pair

# Skips locked rows: another transaction opens, renews or closes that tunnel just now.
_LOCK = text("""
SELECT id FROM tunnels JOIN unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[])) AS was (id, generation)
USING (id, generation) FOR UPDATE OF tunnels SKIP LOCKED
""")
_FORGET = text("""
DELETE FROM security_associations AS sa USING tunnels
WHERE tunnels.id = sa.tunnel_id AND tunnels.id = ANY (CAST(:ids AS uuid[])) AND sa.generation <> tunnels.generation
""")
_RENUMBER = text("""
UPDATE security_associations AS sa
SET spi = new.spi, generation = new.generation, tag = new.tag, made_at = now(), drain_until = NULL
FROM unnest(CAST(:ids AS uuid[]), CAST(:directions AS text[]), CAST(:spis AS bigint[]),
            CAST(:generations AS int[]), CAST(:tags AS bigint[])) AS new (id, direction, spi, generation, tag)
WHERE sa.tunnel_id = new.id AND sa.direction = new.direction
""")
_ADVANCE = text("""
UPDATE tunnels SET generation = new.generation, state = 'up'
FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[])) AS new (id, generation) WHERE tunnels.id = new.id
""")


async def lock(session: AsyncSession, tunnels: Sequence[tuple[uuid.UUID, int]]) -> set[uuid.UUID]:
    """Lock the tunnels that are still at that generation, until the transaction ends; gives those."""
    asked = {"ids": [number for number, _ in tunnels], "generations": [current for _, current in tunnels]}
    return set(await session.scalars(_LOCK, asked))


async def renumber(session: AsyncSession, tunnels: Sequence[tuple[uuid.UUID, Pair]]) -> None:
    """Their one pair is this one. Raises IntegrityError when an SPI is taken."""
    await session.execute(_FORGET, {"ids": [number for number, _ in tunnels]})
    sas = [
        (number, direction, sa.spi, pair.generation, pair.tag)
        for number, pair in tunnels
        for direction, sa in (
            (Direction.TO_GATEWAY, pair.to_gateway),
            (Direction.TO_DEVICE, pair.to_device),
        )
    ]
    names = ("ids", "directions", "spis", "generations", "tags")
    await session.execute(
        _RENUMBER, {name: list(column) for name, column in zip(names, zip(*sas, strict=True), strict=True)}
    )
    await session.execute(
        _ADVANCE,
        {
            "ids": [number for number, _ in tunnels],
            "generations": [pair.generation for _, pair in tunnels],
        },
    )
