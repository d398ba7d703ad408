"""The managed zones, in which devices watch names: the zones of the settings and the zones that Culvert writes."""

from __future__ import annotations

from collections.abc import Sequence

from culvert_db import DNS_ZONES_CHANNEL, Database
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.dns import repository
from culvert_service.tasks import Periodic
from culvert_service.watch.hub import Hub

_LOOK_SECONDS = 30.0


class ManagedZones:
    """`denial_pages`: the settings' zones in which a denied name shows a page, where no administrator has chosen."""

    channel = DNS_ZONES_CHANNEL

    def __init__(
        self, database: Database, configured: Sequence[str], denial_pages: Sequence[str], hub: Hub
    ) -> None:
        self._database = database
        self._configured = configured
        self._hub = hub
        self._pages_by_default = denial_pages
        # As of the last poll.
        self.names: tuple[str, ...] = tuple(configured)
        self.with_denial_page: tuple[str, ...] = tuple(denial_pages)
        self._looks = Periodic("managed zones", self._look, _LOOK_SECONDS)

    async def start(self) -> None:
        await self._look()
        self._looks.start()

    async def stop(self) -> None:
        await self._looks.stop()

    def hear(self, _payload: str | None) -> None:
        """Called by the database listener."""
        self._looks.wake()

    async def read(self, session: AsyncSession) -> tuple[str, ...]:
        """The zones in the session's transaction; those of the settings first."""
        return tuple(dict.fromkeys([*self._configured, *await repository.origins(session)]))

    async def read_denial_pages(self, session: AsyncSession) -> dict[str, bool]:
        """Whether a denied name shows a page, for each managed zone and each zone below that the settings name."""
        chosen = await repository.denial_pages(session)
        names = dict.fromkeys([*await self.read(session), *self._pages_by_default])
        return {name: chosen.get(name, name in self._pages_by_default) for name in names}

    async def _look(self) -> None:
        async with self._database() as session:
            names = await self.read(session)
            pages = await self.read_denial_pages(session)
        shown = tuple(name for name, is_shown in pages.items() if is_shown)
        if (names, shown) != (self.names, self.with_denial_page):
            self.names, self.with_denial_page = names, shown
            self._hub.profiles_changed()
