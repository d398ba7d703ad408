"""Records which devices watch at this controller, and when each was last seen, for the other controllers.

A row is written when a stream begins (identity/service.py), every 60 s while it lasts, and when it has ended. The rows of
a controller that died stay valid until HOLDS has passed.
"""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Callable, Collection

from culvert_db import Database, Device

from culvert_service.controllers.identity import ControllerId
from culvert_service.tasks import Periodic
from culvert_service.watch import repository
from culvert_service.watch.hub import Hub

HOLDS = datetime.timedelta(minutes=3)
_LOOK_SECONDS = 1.0
_TELL_SECONDS = 60.0
# Rows in one transaction: when 10,000 devices come back at once, one transaction must not lock all of their rows.
_PORTION = 500


class Presence:
    def __init__(
        self, database: Database, hub: Hub, me: ControllerId, now: Callable[[], datetime.datetime]
    ) -> None:
        self._database = database
        self._hub = hub
        self._me = me
        self._now = now
        # When each device's row was last written, on the monotonic clock.
        self._told: dict[uuid.UUID, float] = {}
        self._looking = Periodic("presence", self._look, _LOOK_SECONDS)

    async def start(self) -> None:
        self._looking.start()

    async def stop(self) -> None:
        """Must be called after the streams have ended."""
        await self._looking.stop()
        await self._leave(list(self._told))

    def began(self, device: Device) -> None:
        """Mark the device as watching here, in the transaction before its stream begins."""
        device.watched_by, device.watched_until = self._me.holder, self._now() + HOLDS
        self._told[device.id] = time.monotonic()

    def online(self, device: Device) -> bool:
        """Whether the device watches at any controller."""
        if self._hub.watches(device.id):
            return True
        elsewhere = device.watched_by is not None and device.watched_by != self._me.holder
        return elsewhere and device.watched_until is not None and self._now() < device.watched_until

    async def _look(self) -> None:
        now, watches = time.monotonic(), self._hub.watches
        # A stream begins shortly after its row was written.
        await self._leave(
            [it for it, at in self._told.items() if now > at + _LOOK_SECONDS and not watches(it)]
        )
        due = [it for it, at in self._told.items() if now > at + _TELL_SECONDS and watches(it)][:_PORTION]
        if not due:
            return
        at = self._now()
        async with self._database.begin() as session:
            written = await repository.keep_watched(session, due, self._me.holder, at, at + HOLDS)
        for device in due:
            self._told[device] = now if device in written else now - _TELL_SECONDS + _LOOK_SECONDS

    async def _leave(self, gone: Collection[uuid.UUID]) -> None:
        if not gone:
            return
        async with self._database.begin() as session:
            await repository.end_watched(session, gone, self._me.holder)
        for device in gone:
            self._told.pop(device, None)
