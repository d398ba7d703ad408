"""The live view of the audit log. A line's id has the position in each chain, so that any controller can resume there."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator

from culvert_db import AuditLine, Database

from culvert_service.audit import repository
from culvert_service.audit.line import CHAINS

_LOOK_SECONDS = 0.5
# CHAIN:NUMBER of each chain that has lines.
_POSITION = re.compile(r"[0-9]{1,5}:[0-9]{1,18}(,[0-9]{1,5}:[0-9]{1,18})*")


class LogView:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopped = asyncio.Event()

    async def lines(self, seen: str | None) -> AsyncGenerator[tuple[str, AuditLine | None]]:
        """Each line after `seen`, with its id, until the process stops. If `seen` is invalid: None, then each new line."""
        position = parse(seen)
        if position is None:
            async with self._database() as session:
                position = await repository.ends(session)
            yield spell(position), None
        while not self._stopped.is_set():
            async with self._database() as session:
                found = await repository.after(session, position)
            for line in found:
                position[line.chain] = line.seq
                yield spell(position), line
            if not found:
                await self._wait()

    async def stop(self) -> None:
        self._stopped.set()

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            # `wait_for` loses a cancellation that comes together with the event (fixed in Python 3.12).
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._stopped.wait()


def spell(position: dict[int, int]) -> str:
    return ",".join(f"{chain}:{seq}" for chain, seq in sorted(position.items()))


def parse(seen: str | None) -> dict[int, int] | None:
    """None for text that is no position."""
    if seen is None or not _POSITION.fullmatch(seen):
        return None
    found = {int(chain): int(seq) for chain, _, seq in (part.partition(":") for part in seen.split(","))}
    return found if all(chain < CHAINS for chain in found) else None
