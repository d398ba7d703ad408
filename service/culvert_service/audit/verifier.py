"""Every line's hash made anew, in batches, beside whatever the controller serves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from culvert_db import Sessions

from culvert_service.audit import repository
from culvert_service.audit.line import Broken, Verification
from culvert_service.audit.repository import Filter


@dataclass(frozen=True, slots=True)
class Verified:
    """How many lines are as they were written, up to the first that is not; each chain's last number and hash."""

    lines: int
    ends: dict[int, tuple[int, bytes]]
    broken: Broken | None


class Verifier:
    """One run at a time, whose result all get that ask meanwhile."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._run: asyncio.Task[Verified] | None = None

    async def result(self) -> Verified:
        if self._run is None or self._run.done():
            self._run = asyncio.create_task(verify(self._sessions), name="audit verification")
        # A caller that leaves does not end the run of the others.
        return await asyncio.shield(self._run)


async def verify(sessions: Sessions) -> Verified:
    """The lines that are there when it begins. Hashes are made in a thread: the loop serves others between two batches."""
    verification = Verification()
    broken = await _verify(sessions, verification)
    return Verified(verification.lines, verification.ends, broken)


async def _verify(sessions: Sessions, verification: Verification) -> Broken | None:
    async with sessions() as session:
        ends = await repository.ends(session)
        stray = await repository.stray_chain(session)
    if stray is not None:
        return Broken(stray, 0, "nothing appends to this chain")
    async for lines in repository.chained(sessions, Filter(), ends):
        if broken := await asyncio.to_thread(verification.take, lines):
            return broken
    for chain, end in sorted(ends.items()):
        seq, _ = verification.ends.get(chain, (0, b""))
        if seq < end:
            return Broken(chain, seq + 1, "it is not there")
    return None
