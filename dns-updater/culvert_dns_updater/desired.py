"""Which names belong into which zone, from the resources. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from culvert_dns_updater.records import Address, parse_name, zone_of


@dataclass(frozen=True, slots=True)
class Desired:
    """`zones` holds every managed zone, also those that shall be empty; `outside` what fits into none of them."""

    zones: dict[str, dict[str, frozenset[Address]]]
    outside: frozenset[str]


def desired(resources: Iterable[tuple[str, Address]], zones: tuple[str, ...]) -> Desired:
    inside: dict[str, dict[str, frozenset[Address]]] = {zone: {} for zone in zones}
    outside: set[str] = set()
    for fqdn, address in resources:
        name = parse_name(fqdn)
        zone = zone_of(name, zones) if name is not None else None
        if name is None or zone is None:
            outside.add(fqdn)
        else:
            inside[zone][name] = inside[zone].get(name, frozenset()) | {address}
    return Desired(inside, frozenset(outside))
