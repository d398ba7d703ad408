"""The rates of tunnels at all gateways: a controller has the rates of its own and asks the others."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Mapping

from culvert_proto import CulvertError
from sqlalchemy.exc import SQLAlchemyError

from culvert_service.controllers.calls import Calls, NoAnswerError, Serve
from culvert_service.gateways.fleet import Fleet
from culvert_service.tunnels.traffic import Rate, Traffic

_RATES = "tunnels.rates"
# A tunnel, from its device, to its device.
_ROW = struct.Struct(">16sQQ")
# The fastest: no more of them fit an answer.
_ROWS = 150


class Throughput:
    def __init__(self, own: Traffic, fleet: Fleet, calls: Calls) -> None:
        self._own = own
        self._fleet = fleet
        self._calls = calls

    def serving(self) -> dict[str, Serve]:
        return {_RATES: self._serve}

    async def now(self) -> dict[uuid.UUID, Rate]:
        """Another controller that does not answer gives no rates."""
        others = {
            standing.holder
            for standing in self._fleet.standings()
            if standing.online and standing.holder and self._fleet.get(standing.config.name) is None
        }
        found = self._own.rates()
        for rates in await asyncio.gather(*map(self._ask, others)):
            found |= rates
        return found

    async def _ask(self, holder: str) -> dict[uuid.UUID, Rate]:
        try:
            return unpacked(await self._calls.ask(holder, _RATES, b""))
        except (NoAnswerError, CulvertError, SQLAlchemyError, OSError, struct.error):
            return {}

    async def _serve(self, body: bytes) -> bytes:
        return packed(self._own.rates())


def packed(rates: Mapping[uuid.UUID, Rate]) -> bytes:
    fastest = sorted(rates.items(), key=lambda of: of[1].from_device + of[1].to_device, reverse=True)
    return b"".join(
        _ROW.pack(tunnel.bytes, rate.from_device, rate.to_device) for tunnel, rate in fastest[:_ROWS]
    )


def unpacked(rows: bytes) -> dict[uuid.UUID, Rate]:
    """Raises struct.error."""
    return {uuid.UUID(bytes=tunnel): Rate(up, down) for tunnel, up, down in _ROW.iter_unpack(rows)}
