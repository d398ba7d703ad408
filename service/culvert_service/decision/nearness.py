"""Choose the gateways that are near enough to a device, by the round trips that it has measured. Pure.

Among near ones the weights decide, so that devices at one place still share their gateways. One that the device's packets
go through already is left later than it would be taken, so that a round trip on the border does not spread its tunnels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Our tunables: near is up to so many times the nearest, and so many seconds more; with the second pair for one in use.
_TIMES, _MORE = 1.25, 0.005
_TIMES_IN_USE, _MORE_IN_USE = 1.5, 0.010


@dataclass(frozen=True, slots=True)
class Distance:
    """`round_trip` in seconds. `in_use`: a tunnel of the device leads there."""

    round_trip: float
    in_use: bool = False


def near(distances: Mapping[str, Distance]) -> frozenset[str]:
    """The gateways to use before the others."""
    nearest = min((it.round_trip for it in distances.values()), default=0.0)
    return frozenset(
        name
        for name, it in distances.items()
        if it.round_trip
        <= (nearest * _TIMES_IN_USE + _MORE_IN_USE if it.in_use else nearest * _TIMES + _MORE)
    )
