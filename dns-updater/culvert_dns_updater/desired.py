"""Which names belong into which zone, from the resources. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from culvert_dns_updater.records import Address, Ownership, parse_name, zone_of

Names = dict[str, frozenset[Address]]


@dataclass(frozen=True, slots=True)
class ZoneProfile:
    """A zone, or one view of it, as an administrator described it. `only`: the names it may hold; None for all."""

    id: int
    name: str
    origin: str
    server: str
    port: int
    key: str
    ownership: Ownership
    only: frozenset[str] | None
    retiring: bool


@dataclass(frozen=True, slots=True)
class Intent:
    """What an administrator wants of the DNS: `resources` are (name, address)."""

    zones: tuple[ZoneProfile, ...]
    resources: tuple[tuple[str, Address], ...]


def wanted(zone: ZoneProfile, intent: Intent) -> Names:
    """The names that belong into a zone. A name belongs into every view of the most specific origin that holds it."""
    origins = _origins(intent.zones)
    names: Names = {}
    for fqdn, address in intent.resources:
        name = parse_name(fqdn)
        if name is not None and _publishes(zone, name, zone_of(name, origins)):
            names[name] = names.get(name, frozenset()) | {address}
    return names


def unplaced(intent: Intent) -> Names:
    """What no zone publishes."""
    origins = _origins(intent.zones)
    names: Names = {}
    for fqdn, address in intent.resources:
        name = parse_name(fqdn)
        origin = zone_of(name, origins) if name is not None else None
        if name is None or not any(_publishes(zone, name, origin) for zone in intent.zones):
            names[fqdn] = names.get(fqdn, frozenset()) | {address}
    return names


def _origins(zones: Iterable[ZoneProfile]) -> Sequence[str]:
    return sorted({zone.origin for zone in zones if not zone.retiring})


def _publishes(zone: ZoneProfile, name: str, origin: str | None) -> bool:
    return zone.origin == origin and not zone.retiring and (zone.only is None or name in zone.only)
