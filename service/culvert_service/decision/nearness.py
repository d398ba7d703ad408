"""Choose the gateways that are near enough to a device, by the round trips that it has measured. Pure.

Among near gateways the weights decide, so that devices in one place still spread over the gateways. A gateway in use has
a higher limit (hysteresis), so that a round-trip time near the limit does not move tunnels back and forth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Our tunables: a gateway is near up to this multiple of the nearest round-trip time, plus seconds; one in use has its own.
_TIMES, _MORE = 1.25, 0.005
_TIMES_IN_USE, _MORE_IN_USE = 1.5, 0.010


@dataclass(frozen=True, slots=True)
class Distance:
    """`round_trip` in seconds. `in_use`: a tunnel of the device leads there."""

    round_trip: float
    in_use: bool = False


def near(distances: Mapping[str, Distance]) -> frozenset[str]:
    """The near gateways, which are tried first."""
    nearest = min((it.round_trip for it in distances.values()), default=0.0)
    return frozenset(
        name
        for name, it in distances.items()
        if it.round_trip
        <= (nearest * _TIMES_IN_USE + _MORE_IN_USE if it.in_use else nearest * _TIMES + _MORE)
    )
