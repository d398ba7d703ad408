"""Finds the organisation that a name or an address belongs to, and merges the organisations' states. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from culvert_client.core.grant import Address
from culvert_client.core.profile import Profile


def merge_profiles(profiles: Iterable[Profile]) -> Profile:
    """For what treats all alike: which names are held, and which addresses are protected."""
    all_of_them = list(profiles)
    if len(all_of_them) == 1:
        return all_of_them[0]
    return Profile(
        managed_zones=tuple(zone for it in all_of_them for zone in it.managed_zones),
        protected_prefixes=tuple(prefix for it in all_of_them for prefix in it.protected_prefixes),
    )


def find_by_name(profiles: Mapping[int, Profile], fqdn: str) -> int | None:
    """One alone is asked about every name: it knows itself which are its own."""
    if len(profiles) == 1:
        return next(iter(profiles))
    managing = (number for number, it in profiles.items() if it.manages(fqdn))
    knowing = (number for number, it in profiles.items() if it.knows(fqdn))
    return next(managing, next(knowing, None))


def find_full_name(profiles: Mapping[int, Profile], label: str) -> str | None:
    """As `Profile.full_name`; the organisation that was enrolled first has the name."""
    names = (it.full_name(label) for it in profiles.values())
    return next((it for it in names if it is not None), None)


def find_by_address(profiles: Mapping[int, Profile], address: Address) -> int | None:
    return next((number for number, it in profiles.items() if it.protects(address)), None)


def find_by_resource(profiles: Mapping[int, Profile], name: str) -> list[int]:
    """Those that a person can mean by a resource's name or a name in DNS."""
    return [number for number, it in profiles.items() if it.fqdn_of(name) is not None]
