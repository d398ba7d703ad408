"""The desired names of each zone, from the resources (`culvert_db.published`). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from culvert_db.published import Address, origin_of, origins, published_name, publishes

from culvert_dns_updater.records import Ownership

Names = dict[str, frozenset[Address]]


@dataclass(frozen=True, slots=True)
class ZoneProfile:
    """A zone, or one view of it, as an administrator described it. `only`: the permitted names; None for all."""

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
    """An administrator's intent for the DNS: `resources` are (name, address)."""

    zones: tuple[ZoneProfile, ...]
    resources: tuple[tuple[str, Address], ...]


def names_in(zone: ZoneProfile, intent: Intent) -> Names:
    """The desired names of a zone."""
    known = origins(intent.zones)
    names: Names = {}
    for fqdn, address in intent.resources:
        name = published_name(fqdn)
        if name is not None and publishes(zone, name, origin_of(name, known)):
            names[name] = names.get(name, frozenset()) | {address}
    return names


def names_without_zone(intent: Intent) -> Names:
    """The names that no zone publishes."""
    known = origins(intent.zones)
    names: Names = {}
    for fqdn, address in intent.resources:
        name = published_name(fqdn)
        origin = origin_of(name, known) if name is not None else None
        if name is None or not any(publishes(zone, name, origin) for zone in intent.zones):
            names[fqdn] = names.get(fqdn, frozenset()) | {address}
    return names
