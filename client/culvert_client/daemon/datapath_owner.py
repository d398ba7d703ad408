"""One datapath for several organisations: it is told the union of what each wants, with tunnels under distinct ids. Pure.

what one wants ─► with_desired ─► the whole ─► applied ─► the union from now on
                                        └─► refused ─► the union before it, so that the others keep what they have
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from culvert_client.core.client_events import Desired, Measured
from culvert_client.core.grant import Network, Sas, Source, TunnelId

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class DatapathUnion:
    """`parts` by the organisations' numbers."""

    parts: Mapping[int, Desired] = field(default_factory=dict[int, Desired])

    def with_desired(self, number: int, desired: Desired) -> DatapathUnion:
        own = replace(desired, tunnels=tuple(_renamed(number, sas) for sas in desired.tunnels))
        return DatapathUnion({**self.parts, number: own})

    def without(self, number: int) -> DatapathUnion:
        return DatapathUnion({other: desired for other, desired in self.parts.items() if other != number})

    @property
    def whole(self) -> Desired:
        blocked = frozenset[Network]().union(*(it.blocked for it in self.parts.values()))
        return Desired(
            blocked,
            tuple(sas for it in self.parts.values() for sas in it.tunnels),
            tuple(tunnel for it in self.parts.values() for tunnel in it.closed),
            sources=tuple(it for number in self.parts for it in self._sources(number)),
        )

    def _sources(self, number: int) -> Iterator[Source]:
        """Without addresses in what another one blocks: a host there would not be reached any more."""
        others = [prefix for it in self.without(number).parts.values() for prefix in it.blocked]
        for source in self.parts[number].sources:
            free = tuple(it for it in source.addresses if not any(it in other for other in others))
            yield replace(source, addresses=free)


def shared_id(number: int, own: TunnelId) -> TunnelId:
    """As the datapath knows a tunnel of that organisation."""
    return TunnelId(f"{number}/{own}")


def owner_of(shared: TunnelId) -> tuple[int, TunnelId]:
    """The organisation's number, and the tunnel's id in that organisation, for a tunnel id of the datapath."""
    number, _, own = shared.partition("/")
    return int(number), TunnelId(own)


def split_by_organisation(measured: Measured) -> dict[int, Measured]:
    """What was counted, by organisation."""
    usage, drops = _by_owner(measured.usage), _by_owner(measured.drops)
    return {number: Measured(usage[number], drops.get(number, {}), measured.all_drops) for number in usage}


def _renamed(number: int, sas: Sas) -> Sas:
    return replace(sas, tunnel=replace(sas.tunnel, tunnel_id=shared_id(number, sas.tunnel.tunnel_id)))


def _by_owner(values: Mapping[TunnelId, Value]) -> dict[int, dict[TunnelId, Value]]:
    found: dict[int, dict[TunnelId, Value]] = {}
    for shared, value in values.items():
        number, own = owner_of(shared)
        found.setdefault(number, {})[own] = value
    return found
