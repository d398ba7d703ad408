"""Collisions between organisations: claims that another organisation on this computer already has. Pure.

The first organisation keeps its claim; the later claim is refused with ORGANISATIONS_COLLIDE.

zone, name                not equal to, above or below another's
protected prefix          overlaps no prefix, gateway, controller or inner address of another
gateway                   not the address of another's gateway, with any port: the kernel distinguishes SAs by address
inner address             in no prefix of another, and not assigned by another
inbound SPI               not another's: a packet's organisation is found only by its SPI
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from culvert_proto import CulvertError, Reason
from culvert_proto.dns_name import WILDCARD, is_wildcard
from culvert_proto.phrases import Phrase

from culvert_client.core.claims import Surroundings, is_public
from culvert_client.core.grant import Address, Network, SaPair, Sas, Tunnel
from culvert_client.core.profile import Profile


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another organisation's present claims. `controller`: the known addresses of its controller."""

    name: str
    profile: Profile
    tunnels: tuple[Sas, ...] = ()
    controller: frozenset[Address] = frozenset()

    def networks(self) -> list[Network]:
        """The prefixes of its open and possible tunnels."""
        carried = (prefix for sas in self.tunnels for prefix in sas.tunnel.remote_prefixes)
        return [*self.profile.protected_prefixes, *carried]

    def gateways(self) -> list[Network]:
        known = (ip_address(it.address) for it in self.profile.gateways)
        return _hosts([*known, *(sas.tunnel.outer_address for sas in self.tunnels)])

    def others(self) -> list[Network]:
        """Further addresses that must stay reachable, and this computer's inner addresses."""
        inner = (it for sas in self.tunnels for it in sas.tunnel.inner_addresses)
        return [*self.gateways(), *_hosts([*inner, *self.controller])]


@dataclass(frozen=True, slots=True)
class Beside:
    """The other organisations, seen from the organisation `name`."""

    name: str = ""
    others: Sequence[Neighbour] = ()


NOBODY = Beside()


def check_profile(profile: Profile, known: Profile, beside: Beside) -> None:
    """`known`: the organisation's former profile, which was accepted. Raises CulvertError ORGANISATIONS_COLLIDE."""
    new = set(profile.protected_prefixes) - set(known.protected_prefixes)
    gateways = _hosts(ip_address(it.address) for it in profile.gateways)
    for other in beside.others:
        theirs = _domains(other.profile)
        for mine in _domains(profile):
            if any(mine.meets(it) for it in theirs):
                raise _taken_error(mine.what, beside, other)
        for prefix in _find_overlaps(new, [*other.networks(), *other.others()]):
            raise _taken_error(Phrase("The network {prefix}", prefix=prefix), beside, other)
        for gateway in _find_overlaps(gateways, [*other.networks(), *other.gateways()]):
            raise _taken_error(Phrase("The gateway {gateway}", gateway=gateway[0]), beside, other)


def without_taken_addresses(profile: Profile, here: Surroundings, beside: Beside) -> Profile:
    """The profile without inner addresses that are public or belong to hosts that must stay reachable. Without a warning:
    a tunnel with such an address is refused with the reason when it opens."""
    hosts = _hosts([*here.controller, *here.name_servers])
    taken = {*hosts, *(it for other in beside.others for it in other.others())}
    return profile.with_inner_addresses(
        lambda address: not is_public(ip_network(address)) and ip_network(address) not in taken
    )


def check_tunnel(tunnel: Tunnel, beside: Beside) -> None:
    """Raises CulvertError ORGANISATIONS_COLLIDE."""
    for other in beside.others:
        networks, others = other.networks(), other.others()
        for prefix in _find_overlaps(tunnel.remote_prefixes, [*networks, *others]):
            raise _taken_error(Phrase("The network {prefix}", prefix=prefix), beside, other)
        for gateway in _find_overlaps(_hosts([tunnel.outer_address]), [*networks, *other.gateways()]):
            raise _taken_error(Phrase("The gateway {gateway}", gateway=gateway[0]), beside, other)
        for inner in _find_overlaps(_hosts(tunnel.inner_addresses), [*networks, *others]):
            raise _taken_error(Phrase("The address {address}", address=inner[0]), beside, other)


def check_pair(pair: SaPair, beside: Beside) -> None:
    """Raises CulvertError ORGANISATIONS_COLLIDE."""
    for other in beside.others:
        if any(pair.inbound.spi == sa.spi for sas in other.tunnels for sa in sas.inbound):
            raise _taken_error(Phrase("The SA number {number}", number=pair.inbound.spi), beside, other)


@dataclass(frozen=True, slots=True)
class _Domain:
    """A name. `whole`: with all names below it."""

    what: Phrase
    fqdn: str
    whole: bool

    def meets(self, other: _Domain) -> bool:
        return self._holds(other.fqdn) or other._holds(self.fqdn)

    def _holds(self, fqdn: str) -> bool:
        return fqdn == self.fqdn or (self.whole and fqdn.endswith(f".{self.fqdn}"))


def _domains(profile: Profile) -> list[_Domain]:
    """The profile's zones, and the names of resources outside of them."""
    zones = [
        _Domain(Phrase("The zone {name}", name=zone), zone, whole=True) for zone in profile.managed_zones
    ]
    loose = (it.fqdn for it in profile.resources if not profile.manages(it.fqdn))
    return zones + [
        _Domain(Phrase("The name {name}", name=it), it.removeprefix(WILDCARD), is_wildcard(it))
        for it in loose
    ]


def _hosts(addresses: Iterable[Address]) -> list[Network]:
    return [ip_network(it) for it in addresses]


def _find_overlaps(mine: Iterable[Network], theirs: Iterable[Network]) -> Iterator[Network]:
    """The prefixes of `mine` that overlap `theirs`. Fast for a thousand of each."""
    # One of two prefixes that overlap holds the other: of `theirs`, only those that no other of them holds count.
    spans: dict[int, list[tuple[int, int]]] = {4: [], 6: []}
    for version, first, last in sorted(map(_span, theirs), key=lambda span: (span[0], span[1], -span[2])):
        if not spans[version] or first > spans[version][-1][1]:
            spans[version].append((first, last))
    for prefix in mine:
        version, first, last = _span(prefix)
        # Only the last span that begins at or before its end can overlap it.
        at = bisect_right(spans[version], last, key=lambda span: span[0]) - 1
        if at >= 0 and spans[version][at][1] >= first:
            yield prefix


def _span(prefix: Network) -> tuple[int, int, int]:
    return prefix.version, int(prefix.network_address), int(prefix.broadcast_address)


def _taken_error(what: Phrase, beside: Beside, other: Neighbour) -> CulvertError:
    return CulvertError(Reason.ORGANISATIONS_COLLIDE, what=what, organisation=beside.name, other=other.name)
