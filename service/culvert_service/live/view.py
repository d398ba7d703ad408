"""A live view: polls while somebody watches, and sends each watcher the changed rows."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Protocol

from culvert_service.live.timeline import Event, Row, RowTimeline
from culvert_service.tasks import Periodic

# Any process may change rows, so the view polls: a change is sent at most this late.
_LOOK_SECONDS = 0.5


class Source(Protocol):
    """The rows of a view, each by its key."""

    async def versions(self) -> Mapping[str, str]:
        """For each row a text that changes with the row. It has to cost little."""
        ...

    async def rows(self, keys: Collection[str]) -> Mapping[str, Row]:
        """After `versions`: the rows of these keys. A row that is gone meanwhile is absent."""
        ...


class View:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._timeline = RowTimeline(secrets.token_hex(4))
        self._one_at_a_time = asyncio.Lock()
        self._advanced = asyncio.Condition()
        self._looking: Periodic | None = None
        self._watchers = 0
        self._stopped = False

    async def events(self, seen: str | None) -> AsyncGenerator[Event]:
        """Yield events until the process stops. `seen`: the id of the last event that this watcher received."""
        self._watchers += 1
        try:
            await self._look()
            if self._looking is None:
                self._looking = Periodic("live view", self._look, _LOOK_SECONDS)
                self._looking.start()
            while not self._stopped:
                for event in self._timeline.since(seen):
                    seen = event.id
                    yield event
                async with self._advanced:
                    await self._advanced.wait_for(lambda seen=seen: self._stopped or self._has_more(seen))
        finally:
            self._watchers -= 1
            if self._watchers == 0 and self._looking is not None:
                looking, self._looking = self._looking, None
                await looking.stop()

    async def stop(self) -> None:
        self._stopped = True
        async with self._advanced:
            self._advanced.notify_all()

    def _has_more(self, seen: str | None) -> bool:
        return bool(self._timeline.since(seen))

    async def _look(self) -> None:
        # One poll at a time: an older one must not end after a newer one.
        async with self._one_at_a_time:
            versions = await self._source.versions()
            changed = self._timeline.find_changed(versions)
            read = await self._source.rows(changed) if changed else dict[str, Row]()
            async with self._advanced:
                self._timeline.advance(versions, read)
                self._advanced.notify_all()
