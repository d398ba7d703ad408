"""Tells the devices' port which certificates are revoked, so that their handshakes fail.

Each call still checks its device's row. The refusal in the handshake saves the cost of calls by revoked devices.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Protocol

from culvert_db import REVOCATIONS_CHANNEL, Database

from culvert_service.identity import repository
from culvert_service.tasks import Periodic

_LOOK_SECONDS = 30.0
# Each poll goes back this far, for transactions that committed after the last poll but began before it, and for
# differences between the controllers' clocks.
_OVERLAP = datetime.timedelta(minutes=2)


class Handshakes(Protocol):
    """The devices' port."""

    def deny(self, fingerprints: Sequence[bytes]) -> None:
        """Refuse the certificates with these fingerprints from now on."""
        ...


class Revocations:
    channel = REVOCATIONS_CHANNEL

    def __init__(self, database: Database, now: Callable[[], datetime.datetime]) -> None:
        self._database = database
        self._now = now
        self._seen_until: datetime.datetime | None = None
        self._looks = Periodic("revocations", self._look, _LOOK_SECONDS)
        self._handshakes: Handshakes | None = None

    async def start(self, handshakes: Handshakes) -> None:
        """Before `start` returns, the certificates of all revoked devices are denied."""
        self._handshakes = handshakes
        await self._look()
        self._looks.start()

    async def stop(self) -> None:
        await self._looks.stop()

    def hear(self, _payload: str | None) -> None:
        """The listener calls this for a notification in `channel`."""
        self._looks.wake()

    async def _look(self) -> None:
        now = self._now()
        async with self._database() as session:
            revoked = await repository.list_revoked(session, self._seen_until, now)
        self._seen_until = now - _OVERLAP
        if self._handshakes is not None:
            self._handshakes.deny(revoked)
