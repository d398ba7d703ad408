"""Computes every line's hash again, in batches, while the controller serves requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from culvert_db import Database

from culvert_service.audit import repository
from culvert_service.audit.cut import CutKey
from culvert_service.audit.line import Broken, Verification, Written
from culvert_service.audit.repository import Filter


@dataclass(frozen=True, slots=True)
class Verified:
    """The number of unchanged lines before the first fault, and the last number and hash of each chain."""

    lines: int
    ends: dict[int, tuple[int, bytes]]
    broken: Broken | None


class Verifier:
    """Verifies the whole log, once at a time. All requests during a run get its result."""

    def __init__(self, database: Database, key: CutKey) -> None:
        self._database = database
        self._key = key
        self._run: asyncio.Task[Verified] | None = None

    async def result(self) -> Verified:
        if self._run is None or self._run.done():
            self._run = asyncio.create_task(verify(self._database, self._key), name="audit verification")
        # A caller that disconnects must not cancel the run that others wait for.
        return await asyncio.shield(self._run)


async def verify(database: Database, key: CutKey, ends: Mapping[int, int] | None = None) -> Verified:
    """Verify the lines up to these ends; by default all lines that exist at the beginning.

    Hashes are computed in a thread, so that the event loop can serve other requests.
    """
    verification = Verification()
    broken = await _verify(database, key, verification, ends)
    return Verified(verification.lines, verification.ends, broken)


async def _verify(
    database: Database, key: CutKey, verification: Verification, until: Mapping[int, int] | None
) -> Broken | None:
    async with database() as session:
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        last = await repository.ends(session)
        stray = await repository.stray_chain(session)
        cuts = await repository.cuts(session)
    if stray is not None:
        return Broken(stray, 0, "nothing appends to this chain")
    for chain, of_chain in cuts.items():
        if broken := key.check(of_chain):
            return broken
        verification.begin(chain, of_chain[-1].seq, of_chain[-1].hash)
        if chain not in last:
            return Broken(chain, of_chain[-1].seq + 1, "it is not there")
    ends = last if until is None else until
    async for lines in repository.read_chains(database, Filter(), ends):
        if broken := await _take(database, key, verification, lines):
            return broken
    for chain, end in sorted(ends.items()):
        if _seq(verification, chain) < end and (
            broken := await _skip_cut(database, key, verification, chain)
        ):
            return broken
        if (seq := _seq(verification, chain)) < end:
            return Broken(chain, seq + 1, "it is not there")
    return None


async def _take(
    database: Database, key: CutKey, verification: Verification, lines: Sequence[Written]
) -> Broken | None:
    chain = lines[0].chain
    if lines[0].seq > _seq(verification, chain) + 1 and (
        broken := await _skip_cut(database, key, verification, chain)
    ):
        return broken
    return await asyncio.to_thread(verification.take, lines)


async def _skip_cut(database: Database, key: CutKey, verification: Verification, chain: int) -> Broken | None:
    """For missing lines, which another controller or command may have cut since this run began."""
    async with database() as session:
        cuts = (await repository.cuts(session)).get(chain, [])
    if broken := key.check(cuts):
        return broken
    if cuts and cuts[-1].seq > _seq(verification, chain):
        verification.begin(chain, cuts[-1].seq, cuts[-1].hash)
    return None


def _seq(verification: Verification, chain: int) -> int:
    return verification.ends.get(chain, (0, b""))[0]
