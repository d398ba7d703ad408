"""Samples each gateway's counters every 10 s and keeps them for 24 h, for the console's charts.

The owner of a gateway writes its samples, as long as it has the lease; any controller reads them.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass

from culvert_db import Database
from culvert_proto import CulvertError

from culvert_service.gateways import repository
from culvert_service.gateways.fleet import Fleet
from culvert_service.tasks import Periodic

# Our tunables.
_EVERY_SECONDS = 10.0
_KEPT = datetime.timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Carried:
    """Bytes of IP packets that all tunnels of a gateway carried in `seconds`, site tunnels included."""

    received: int = 0
    sent: int = 0
    seconds: float = 0.0


class Sampling:
    def __init__(self, database: Database, fleet: Fleet, take_carried: Callable[[str], Carried]) -> None:
        """`take_carried` gives what a gateway has carried since the last call."""
        self._database = database
        self._fleet = fleet
        self._take_carried = take_carried
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
            trip = link.take_round_trip()
            carried = self._take_carried(link.name)
            rows.append(
                {
                    "gateway": link.config.id,
                    "epoch": link.epoch,
                    "drops": json.dumps(drops),
                    "round_trip_us": None if trip is None else round(trip * 1e6),
                    "received": carried.received,
                    "sent": carried.sent,
                    "seconds": carried.seconds,
                }
            )
        if rows:
            async with self._database.begin() as session:
                await repository.add_samples(session, rows)
                await repository.delete_samples_before(session, _KEPT)
