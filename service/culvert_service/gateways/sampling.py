"""Samples each gateway's counters every 10 s and keeps them for 24 h, for the console's charts.

The owner of a gateway writes its samples; any controller reads them.
"""

from __future__ import annotations

import datetime

from culvert_db import Database
from culvert_proto import CulvertError

from culvert_service.gateways import repository
from culvert_service.gateways.fleet import Fleet
from culvert_service.tasks import Periodic

# Our tunables.
_EVERY_SECONDS = 10.0
_KEPT = datetime.timedelta(hours=24)


class Sampling:
    def __init__(self, database: Database, fleet: Fleet) -> None:
        self._database = database
        self._fleet = fleet
        self._rounds = Periodic("sampling", self.sample, _EVERY_SECONDS)

    async def start(self) -> None:
        self._rounds.start()

    async def stop(self) -> None:
        await self._rounds.stop()

    async def sample(self) -> None:
        rows: list[dict[str, object]] = []
        for link in [link for link in self._fleet if link.online]:
            try:
                drops = await link.drops()
            except CulvertError:
                # The chart shows a gap.
                continue
            trip = None if link.round_trip is None else round(link.round_trip * 1e6)
            rows.append({"gateway_id": link.config.id, "drops": drops, "round_trip_us": trip})
        if rows:
            async with self._database.begin() as session:
                await repository.add_samples(session, rows)
                await repository.delete_samples_before(session, _KEPT)
