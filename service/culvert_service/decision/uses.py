"""The day on which each policy last permitted a tunnel: one write a day for each policy, beside the calls."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Collection

from culvert_db import Database
from culvert_proto import CulvertError

from culvert_service.decision import repository
from culvert_service.tasks import Periodic

_WRITE_SECONDS = 30.0


class PolicyUses:
    def __init__(self, database: Database, now: Callable[[], datetime.datetime]) -> None:
        self._database = database
        self._now = now
        self._today = datetime.date.min
        self._noted: set[str] = set()
        self._unwritten: set[str] = set()
        self._rounds = Periodic("policy uses", self.write, _WRITE_SECONDS)

    def start(self) -> None:
        self._rounds.start()

    async def stop(self) -> None:
        await self._rounds.stop()
        # Uses that the database does not take now are noted again by the next tunnels.
        with contextlib.suppress(CulvertError):
            await self.write()

    def note(self, policies: Collection[str]) -> None:
        """`policies`: the names of those that have permitted a tunnel now."""
        today = self._now().date()
        if today != self._today:
            # Unwritten uses of the last half minute become uses of this day.
            self._today = today
            self._noted.clear()
        first = set(policies) - self._noted
        self._noted |= first
        self._unwritten |= first

    async def write(self) -> None:
        if not self._unwritten:
            return
        names, self._unwritten = self._unwritten, set()
        try:
            async with self._database.begin() as session:
                await repository.write_uses(session, names, self._today)
        except BaseException:
            self._unwritten |= names
            raise
