"""The rate of each tunnel, and the bytes of each gateway, from two readings of a gateway's counters.

A controller has the rates of the gateways that it owns, in memory only; it asks the other controllers for the rest. The
bytes of its gateways wait here for the next sample (gateways/sampling.py).
"""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from culvert_proto import CulvertError
from sqlalchemy.exc import SQLAlchemyError

from culvert_service.controllers.calls import Calls, NoAnswerError, Serve
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.sampling import Carried

_RATES = "tunnels.rates"
# The tunnel's id, the rate from its device, the rate to its device.
_ROW = struct.Struct(">16sQQ")
# The number of tunnels that fit an answer: the fastest ones are sent.
_ROWS = 150
# The bytes that an SA has carried so far.
Bytes = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes of IP packets per second."""

    from_device: int
    to_device: int


@dataclass(frozen=True, slots=True)
class _Look:
    opened: Bytes
    sealed: Bytes
    at: float


class Traffic:
    """The rates at the gateways that this controller owns. Tunnels without traffic have no rate."""

    def __init__(self) -> None:
        self._before: dict[str, _Look] = {}
        self._rates: dict[str, dict[uuid.UUID, Rate]] = {}
        self._carried: dict[str, Carried] = {}

    def look(
        self, gateway: str, opened: Bytes, sealed: Bytes, tunnels: Mapping[int, uuid.UUID], now: float
    ) -> None:
        """`tunnels`: by SA; `now`: monotonic, in seconds. The first reading of a gateway gives no rate."""
        look = _Look(opened, sealed, now)
        before, self._before[gateway] = self._before.get(gateway), look
        if before is not None and now > before.at:
            seconds = now - before.at
            up = _per_tunnel(before.opened, opened, tunnels, seconds)
            down = _per_tunnel(before.sealed, sealed, tunnels, seconds)
            self._rates[gateway] = {
                it: Rate(up.get(it, 0), down.get(it, 0)) for it in up.keys() | down.keys()
            }
            known = self._carried.get(gateway, Carried())
            self._carried[gateway] = Carried(
                known.received + sum(_more(before.opened, opened).values()),
                known.sent + sum(_more(before.sealed, sealed).values()),
                known.seconds + seconds,
            )

    def take(self, gateway: str) -> Carried:
        """The bytes since the last call."""
        return self._carried.pop(gateway, Carried())

    def forget(self, gateway: str) -> None:
        """Forget a gateway whose counters could not be read."""
        self._before.pop(gateway, None)
        self._rates.pop(gateway, None)

    def keep(self, gateways: Iterable[str]) -> None:
        """Forget all other gateways: they are offline, or another controller owns them."""
        kept = set(gateways)
        for gateway in self._before.keys() - kept:
            self.forget(gateway)
        for gateway in self._carried.keys() - kept:
            del self._carried[gateway]

    def rates(self) -> dict[uuid.UUID, Rate]:
        return {tunnel: rate for of in self._rates.values() for tunnel, rate in of.items()}


class Throughput:
    def __init__(self, own: Traffic, fleet: Fleet, calls: Calls) -> None:
        self._own = own
        self._fleet = fleet
        self._calls = calls

    def serving(self) -> dict[str, Serve]:
        return {_RATES: self._serve}

    async def collect(self) -> dict[uuid.UUID, Rate]:
        """The rates at all gateways. A controller that does not answer gives none."""
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
            return unpack_rates(await self._calls.ask(holder, _RATES, b""))
        except (NoAnswerError, CulvertError, SQLAlchemyError, OSError, struct.error):
            return {}

    async def _serve(self, body: bytes) -> bytes:
        return pack_rates(self._own.rates())


def pack_rates(rates: Mapping[uuid.UUID, Rate]) -> bytes:
    fastest = sorted(rates.items(), key=lambda of: of[1].from_device + of[1].to_device, reverse=True)
    return b"".join(
        _ROW.pack(tunnel.bytes, rate.from_device, rate.to_device) for tunnel, rate in fastest[:_ROWS]
    )


def unpack_rates(rows: bytes) -> dict[uuid.UUID, Rate]:
    """Raises struct.error."""
    return {uuid.UUID(bytes=tunnel): Rate(up, down) for tunnel, up, down in _ROW.iter_unpack(rows)}


def _per_tunnel(
    before: Bytes, now: Bytes, tunnels: Mapping[int, uuid.UUID], seconds: float
) -> dict[uuid.UUID, int]:
    carried: dict[uuid.UUID, int] = defaultdict(int)
    for sa, more in _more(before, now).items():
        if sa in tunnels:
            carried[tunnels[sa]] += more
    return {tunnel: round(more / seconds) for tunnel, more in carried.items()}


def _more(before: Bytes, now: Bytes) -> dict[int, int]:
    """By SA, what it has carried in between; new SAs count from 0. A count that fell lost entries or was reset. It shows
    none: where one of several entries went, what is left may have been counted for days.
    """
    return {sa: count - known for sa, count in now.items() if count > (known := before.get(sa, 0))}
