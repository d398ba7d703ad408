"""Limits the prefixes that a controller may claim, so that a faulty or malicious controller can neither cut this computer
off from its own network nor take over the Internet's traffic (RFC 5735, 6890). Pure.

A public prefix that passes here also needs a person's agreement (consent.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from culvert_proto import CulvertError, Reason, protected_prefix
from culvert_proto.phrases import Phrase

from culvert_client.core.grant import Address, Network

MOST_PUBLIC = {4: 2 * 2**24, 6: 2 * 2**112}
"""Our tunable, by IP version: public addresses of all organisations together, two /8 of IPv4 and two /16 of IPv6."""

# Not routed on the Internet (RFC 6890): private, shared, benchmarks, documentation, reserved; unique local, site-local.
_PRIVATE = (
    *map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15")),
    *map(IPv4Network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4")),
    *map(IPv6Network, ("fc00::/7", "fec0::/10", "2001:db8::/32", "3fff::/20")),
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Addresses that must stay reachable: this computer's uplink networks, the controller, and the name servers that the
    network gave it."""

    networks: frozenset[Network] = frozenset()
    controller: frozenset[Address] = frozenset()
    name_servers: frozenset[Address] = frozenset()

    @property
    def needed(self) -> list[Network]:
        """All of them as prefixes, without duplicates."""
        hosts = frozenset(map(ip_network, self.controller | self.name_servers))
        v4 = (it for it in self.networks | hosts if isinstance(it, IPv4Network))
        v6 = (it for it in self.networks | hosts if isinstance(it, IPv6Network))
        return [*collapse_addresses(v4), *collapse_addresses(v6)]


@dataclass(frozen=True, slots=True)
class LocalNetwork:
    """A route of the main routing table over `device`, not a default route. `index`: the device's interface index.

    `own`: an on-link network that this computer created.
    """

    prefix: Network
    device: str
    index: int
    source: Address | None
    own: bool


def is_public(prefix: Network) -> bool:
    """Whether an address of the prefix may be routed on the Internet."""
    return not any(holds(private, prefix) for private in _PRIVATE)


def check_public_space(prefixes: Iterable[Network]) -> None:
    """Check the prefixes of all organisations together against MOST_PUBLIC. Raises CulvertError CONTROLLER_INVALID."""
    public = [prefix for prefix in prefixes if is_public(prefix)]
    v4 = collapse_addresses(it for it in public if isinstance(it, IPv4Network))
    v6 = collapse_addresses(it for it in public if isinstance(it, IPv6Network))
    if (
        sum(it.num_addresses for it in v4) > MOST_PUBLIC[4]
        or sum(it.num_addresses for it in v6) > MOST_PUBLIC[6]
    ):
        raise _invalid(Phrase("it claims more of the Internet than two /8 of IPv4 or two /16 of IPv6"))


def check_prefixes(prefixes: Iterable[Network]) -> None:
    """Refuse prefixes that no controller may claim, wherever this computer is. Raises CulvertError CONTROLLER_INVALID."""
    for number, prefix in enumerate(prefixes):
        if number >= protected_prefix.NUMBER_MAX:
            raise _invalid(
                Phrase("it claims more than {number} prefixes", number=protected_prefix.NUMBER_MAX)
            )
        if protected_prefix.is_too_wide(prefix):
            raise _invalid(Phrase("{prefix} is too wide for a private network", prefix=prefix))
        if protected_prefix.holds_own_addresses(prefix):
            raise _invalid(
                Phrase("{prefix} holds addresses that each computer needs for itself", prefix=prefix)
            )


def check_host(address: Address) -> None:
    """Check a gateway's address or an inner address. Raises CulvertError CONTROLLER_INVALID."""
    if protected_prefix.is_own_address(address):
        raise _invalid(Phrase("{address} is no address of a computer", address=address))


def check_collisions(prefixes: Iterable[Network], here: Surroundings) -> None:
    """Raises CulvertError ADDRESS_COLLISION."""
    for prefix in prefixes:
        for network in here.networks:
            if overlap(prefix, network):
                what = Phrase("this computer's own network {network}", network=network)
                raise CulvertError(Reason.ADDRESS_COLLISION, prefix=prefix, what=what)
        inside = [
            Phrase("the controller's own address {address}", address=it)
            for it in here.controller
            if it in prefix
        ]
        inside += [
            Phrase("this computer's name server {address}", address=it)
            for it in here.name_servers
            if it in prefix
        ]
        if inside:
            raise CulvertError(Reason.ADDRESS_COLLISION, prefix=prefix, what=inside[0])


def apart(prefixes: Iterable[Network], taken: Iterable[Network]) -> list[Network]:
    """The prefixes, without the parts in `taken`."""
    left = list(prefixes)
    for one in taken:
        left = [part for it in left for part in _around(it, one)]
    return left


def _around(prefix: Network, taken: Network) -> Iterable[Network]:
    if not overlap(prefix, taken):
        return (prefix,)
    if (
        isinstance(prefix, IPv4Network)
        and isinstance(taken, IPv4Network)
        and taken.prefixlen > prefix.prefixlen
    ):
        return prefix.address_exclude(taken)
    if (
        isinstance(prefix, IPv6Network)
        and isinstance(taken, IPv6Network)
        and taken.prefixlen > prefix.prefixlen
    ):
        return prefix.address_exclude(taken)
    return ()


def overlap(one: Network, other: Network) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.overlaps(other)
    return isinstance(other, IPv6Network) and one.overlaps(other)


def holds(outer: Network, inner: Network) -> bool:
    """Whether all of `inner` lies in `outer`."""
    if isinstance(outer, IPv4Network):
        return isinstance(inner, IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, IPv6Network) and inner.subnet_of(outer)


def _invalid(why: Phrase) -> CulvertError:
    return CulvertError(Reason.CONTROLLER_INVALID, why=why)
