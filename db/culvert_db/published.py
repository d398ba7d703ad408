"""The DNS names and records of a resource: dns-updater writes them, the controller previews them. Pure.

A name is published in every view of the most specific origin above it, except views whose list of resources lacks it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from culvert_proto import dns_name
from culvert_proto.contract import DNS_NAME_MAX

OWNER_LABEL = "_culvert-owner"
"""Before a published name: the name of the record that says which program owns the records."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class View(Protocol):
    """A zone, or one view of it. `only`: the permitted names; None for all."""

    @property
    def origin(self) -> str: ...
    @property
    def only(self) -> frozenset[str] | None: ...
    @property
    def retiring(self) -> bool: ...


def hosts(targets: Iterable[Mapping[str, Any]]) -> list[Address]:
    """The single hosts among a resource's targets, which are its name's addresses."""
    networks = (ipaddress.ip_network(target["prefix"]) for target in targets)
    return list(dict.fromkeys(it.network_address for it in networks if it.num_addresses == 1))


def published_name(fqdn: str) -> str | None:
    """The canonical name. None for a wildcard, whose names others publish, and if the owner name would be too long."""
    try:
        name = dns_name.parse(fqdn)
    except dns_name.NameInvalidError:
        return None
    return name if len(owner_name(name)) <= DNS_NAME_MAX else None


def owner_name(name: str) -> str:
    return f"{OWNER_LABEL}.{name}"


def rrtype(address: Address) -> str:
    """RFC 1035 section 3.2.2, RFC 3596 section 2.1."""
    return "A" if address.version == 4 else "AAAA"


def record_types(addresses: Iterable[Address]) -> list[str]:
    """The types of the records at a published name."""
    return sorted({"TXT", *map(rrtype, addresses)})


def origins(views: Iterable[View]) -> Sequence[str]:
    return sorted({view.origin for view in views if not view.retiring})


def origin_of(name: str, origins: Sequence[str]) -> str | None:
    """The most specific origin at or above the name."""
    holding = [it for it in origins if name == it or name.endswith(f".{it}")]
    return max(holding, key=len, default=None)


def publishes(view: View, name: str, origin: str | None) -> bool:
    """Whether the view publishes the name. `origin`: the result of `origin_of` for the name."""
    return view.origin == origin and not view.retiring and (view.only is None or name in view.only)
