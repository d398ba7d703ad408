"""This device's trust: zones, prefixes, gateways and resources, from the controller and never from DNS."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_network

import dns.exception
import dns.name
from culvert_proto import CulvertError, Reason
from culvert_proto.dns_name import candidates, canonical

from culvert_client.core.grant import Address, Network

ZONES_SEARCHED = 8
"""Our tunable: the controller is asked once in each for a name that the profile does not have."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """`inner_addresses`: this computer's inner addresses at the gateway; empty if unknown."""

    name: str
    address: str
    online: bool
    inner_addresses: tuple[Address, ...] = ()


@dataclass(frozen=True, slots=True)
class Resource:
    """`fqdn` is one name, or `*.` and a suffix for every name below it. Its tunnel tries the `gateways` in this order."""

    name: str
    fqdn: str
    addresses: tuple[str, ...]
    gateways: tuple[str, ...] = ()

    @property
    def prefixes(self) -> Iterator[Network]:
        for text in self.addresses:
            try:
                yield ip_network(text, strict=False)
            except ValueError:
                # Skip an invalid address: no packet can match it.
                continue


@dataclass(frozen=True, slots=True)
class Collision:
    """A network that this computer needs, inside a prefix of the controller: it is not protected."""

    needed: Network
    prefix: Network

    @property
    def warning(self) -> CulvertError:
        return CulvertError(Reason.LOCAL_NETWORK_UNPROTECTED, network=self.needed, prefix=self.prefix)


@dataclass(frozen=True, slots=True)
class Profile:
    """`code_valid_until`: Unix seconds, 0 if a code is needed now.

    `awaiting`, `declined`: public prefixes without the person's agreement (consent.py). `agreed`: those with it, which are
    protected, too.
    `collisions`: left out of `protected_prefixes`. `denial_page_zones`: those in which a denied name leads to a page.
    """

    user: str = ""
    device_name: str = ""
    managed_zones: tuple[str, ...] = ()
    protected_prefixes: tuple[Network, ...] = ()
    gateways: tuple[Gateway, ...] = ()
    resources: tuple[Resource, ...] = ()
    code_valid_until: int = 0
    awaiting: tuple[Network, ...] = ()
    declined: tuple[Network, ...] = ()
    agreed: tuple[Network, ...] = ()
    collisions: tuple[Collision, ...] = ()
    denial_page_zones: tuple[str, ...] = ()
    _tunnels: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tunnels", frozenset(resource.fqdn for resource in self.resources))

    @property
    def offered(self) -> tuple[Network, ...]:
        """All prefixes of the controller, except `collisions`."""
        return (*self.protected_prefixes, *self.awaiting, *self.declined)

    def manages(self, fqdn: str) -> bool:
        """Whether the name is inside a managed zone."""
        return _is_in(fqdn, self.managed_zones)

    def explains(self, fqdn: str) -> bool:
        """Whether the name, when it is refused, may lead to a page of this computer. The nearest zone decides."""
        zones = [zone for zone in (*self.managed_zones, *self.denial_page_zones) if _is_in(fqdn, (zone,))]
        return self.manages(fqdn) and max(zones, key=len) in self.denial_page_zones

    def knows(self, fqdn: str) -> bool:
        """Whether the name is a resource's, so that it needs a tunnel with or without TXT."""
        return self.tunnel_of(fqdn) in self._tunnels

    def reached(self, names: Sequence[str]) -> str:
        """The name that policy is about, of a name and those that it stands for, in order: the last one that the profile
        knows, else the last one inside a managed zone."""
        known = [name for name in names if self.knows(name)]
        managed = known or [name for name in names if self.manages(name)]
        return (managed or names)[-1]

    def tunnel_of(self, fqdn: str) -> str:
        """The name of a name's tunnel: its resource's `fqdn`; of several, the longest."""
        if fqdn in self._tunnels:
            return fqdn
        return next((it for it in candidates(fqdn) if it in self._tunnels), fqdn)

    def addresses_of(self, fqdn: str) -> frozenset[Address]:
        """The addresses of a resource's name; empty for names below a wildcard, which Culvert does not publish."""
        prefixes = (it for resource in self.resources if resource.fqdn == fqdn for it in resource.prefixes)
        return frozenset(it.network_address for it in prefixes if it.num_addresses == 1)

    def protects(self, address: Address) -> bool:
        """Whether the address must never be reached outside of a tunnel."""
        return any(address in prefix for prefix in self.protected_prefixes)

    def is_intranet(self, address: Address) -> bool:
        """Whether an intranet name with this address may be reached only through a tunnel."""
        return self.protects(address) or any(address in it.needed for it in self.collisions)

    def fqdn_of(self, name: str) -> str | None:
        """The tunnel's name for a resource's name or a name inside a managed zone that a person gives."""
        wanted = canonical(name)
        for resource in self.resources:
            if wanted == canonical(resource.name):
                return resource.fqdn
        return self.tunnel_of(wanted) if self.knows(wanted) or self.manages(wanted) else None

    def full_name(self, label: str) -> str | None:
        """The resource's name that a name without a dot stands for, directly inside a managed zone, of several in the first
        one. A wildcard gives none: each word that is typed would be such a name."""
        names = (f"{label}.{zone}" for zone in self.managed_zones)
        return next((it for it in names if it in self._tunnels), None)

    def fqdns_of(self, name: str) -> tuple[str, ...]:
        """As `fqdn_of`; if that finds nothing, a name without a dot is searched in each managed zone.

        Also returns unknown names: the profile has only permitted ones, and the controller explains a refusal.
        """
        fqdn, label = self.fqdn_of(name), canonical(name)
        if fqdn is not None:
            return (fqdn,)
        if not label or "." in label:
            return ()
        return tuple(f"{label}.{canonical(zone)}" for zone in self.managed_zones[:ZONES_SEARCHED])

    def with_inner_addresses(self, allows: Callable[[Address], bool]) -> Profile:
        """The profile with only allowed inner addresses."""

        def less(gateway: Gateway) -> Gateway:
            return replace(gateway, inner_addresses=tuple(filter(allows, gateway.inner_addresses)))

        return replace(self, gateways=tuple(map(less, self.gateways)))

    def with_code(self, valid_until: int) -> Profile:
        return replace(self, code_valid_until=valid_until)


def _is_in(fqdn: str, zones: Sequence[str]) -> bool:
    name = _name(fqdn)
    return name is not None and any(
        zone is not None and name.is_subdomain(zone) for zone in map(_name, zones)
    )


@functools.lru_cache(maxsize=1024)
def _name(fqdn: str) -> dns.name.Name | None:
    try:
        return dns.name.from_text(fqdn)
    except (dns.exception.DNSException, UnicodeError):
        return None
