"""The rate of each tunnel, from two looks at a gateway's counters. Pure.

This process has it of the gateways that it writes, and nobody keeps it; throughput.py has it of all.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
    """Tunnels that stand still have no rate."""

    def __init__(self) -> None:
        self._before: dict[str, _Look] = {}
        self._rates: dict[str, dict[uuid.UUID, Rate]] = {}

    def look(
        self, gateway: str, opened: Bytes, sealed: Bytes, tunnels: Mapping[int, uuid.UUID], now: float
    ) -> None:
        """`tunnels` by SA; `now` is monotonic, in seconds. The first look at a gateway tells no rate."""
        look = _Look(opened, sealed, now)
        before, self._before[gateway] = self._before.get(gateway), look
        if before is not None and now > before.at:
            seconds = now - before.at
            up = _per_tunnel(before.opened, opened, tunnels, seconds)
            down = _per_tunnel(before.sealed, sealed, tunnels, seconds)
            self._rates[gateway] = {
                it: Rate(up.get(it, 0), down.get(it, 0)) for it in up.keys() | down.keys()
            }

    def forget(self, gateway: str) -> None:
        """Forget a gateway that could not be looked at."""
        self._before.pop(gateway, None)
        self._rates.pop(gateway, None)

    def keep(self, gateways: Iterable[str]) -> None:
        """All others are forgotten: they are offline, or another controller's."""
        for gateway in self._before.keys() - set(gateways):
            self.forget(gateway)

    def rates(self) -> dict[uuid.UUID, Rate]:
        return {tunnel: rate for of in self._rates.values() for tunnel, rate in of.items()}


def _per_tunnel(
    before: Bytes, now: Bytes, tunnels: Mapping[int, uuid.UUID], seconds: float
) -> dict[uuid.UUID, int]:
    carried: dict[uuid.UUID, int] = defaultdict(int)
    for sa, count in now.items():
        # A counter that fell began anew.
        known = before.get(sa, 0)
        if (more := count - known if count >= known else count) and sa in tunnels:
            carried[tunnels[sa]] += more
    return {tunnel: round(more / seconds) for tunnel, more in carried.items()}
