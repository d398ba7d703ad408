"""Prefixes that an organisation may not claim because another one on this computer has them. Pure.

Whoever had it first keeps it untouched; the later claim is refused with ORGANISATIONS_COLLIDE.

zone, name                no other's, none above and none below it
protected prefix          holds nothing of another's: prefix, gateway, controller, address of this computer
gateway                   another address than another's gateways, whatever the port: the kernel tells SAs apart by it
address of this computer  in no prefix of another's, and none that another gave
inbound SPI               no other's: it is all that tells whose a packet is
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_client.core.claims import Surroundings, is_public
from culvert_client.core.grant import Address, Network, SaPair, Sas, Tunnel
from culvert_client.core.profile import Profile


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another organisation as it is now. `controller` are its controller's addresses, as far as they are known."""

    name: str
    profile: Profile
    tunnels: tuple[Sas, ...] = ()
    controller: frozenset[Address] = frozenset()

    def networks(self) -> list[Network]:
        """The prefixes that its tunnels carry, or would."""
        carried = (prefix for sas in self.tunnels for prefix in sas.tunnel.remote_prefixes)
        return [*self.profile.protected_prefixes, *carried]

    def gateways(self) -> list[Network]:
        known = (ip_address(it.address) for it in self.profile.gateways)
        return _hosts([*known, *(sas.tunnel.outer_address for sas in self.tunnels)])

    def others(self) -> list[Network]:
        """The addresses that must stay reachable beside its networks, and this computer's addresses there."""
        inner = (it for sas in self.tunnels for it in sas.tunnel.inner_addresses)
        return [*self.gateways(), *_hosts([*inner, *self.controller])]


@dataclass(frozen=True, slots=True)
class Beside:
    """The claims beside those of the organisation of this name."""

    name: str = ""
    others: Sequence[Neighbour] = ()


NOBODY = Beside()


def check_profile(profile: Profile, known: Profile, beside: Beside) -> None:
    """`known` is what was agreed with this organisation before. Raises CulvertError ORGANISATIONS_COLLIDE."""
    new = set(profile.protected_prefixes) - set(known.protected_prefixes)
    gateways = _hosts(ip_address(it.address) for it in profile.gateways)
    for other in beside.others:
        theirs = _domains(other.profile)
        for mine in _domains(profile):
            if any(mine.meets(it) for it in theirs):
                raise _taken(mine.what, beside, other)
        for prefix in _overlapping(new, [*other.networks(), *other.others()]):
            raise _taken(Phrase("The network {prefix}", prefix=prefix), beside, other)
        for gateway in _overlapping(gateways, [*other.networks(), *other.gateways()]):
            raise _taken(Phrase("The gateway {gateway}", gateway=gateway[0]), beside, other)


def without_taken_addresses(profile: Profile, here: Surroundings, beside: Beside) -> Profile:
    """Without inner addresses that are public, or a host's that this computer must reach. No one is told: a tunnel that
    would have such an address is refused when it opens, with the reason."""
    hosts = _hosts([*here.controller, *here.name_servers])
    taken = {*hosts, *(it for other in beside.others for it in other.others())}
    return profile.with_inner_addresses(
        lambda address: not is_public(ip_network(address)) and ip_network(address) not in taken
    )


def check_tunnel(tunnel: Tunnel, beside: Beside) -> None:
    """Raises CulvertError ORGANISATIONS_COLLIDE."""
    for other in beside.others:
        networks, others = other.networks(), other.others()
        for prefix in _overlapping(tunnel.remote_prefixes, [*networks, *others]):
            raise _taken(Phrase("The network {prefix}", prefix=prefix), beside, other)
        for gateway in _overlapping(_hosts([tunnel.outer_address]), [*networks, *other.gateways()]):
            raise _taken(Phrase("The gateway {gateway}", gateway=gateway[0]), beside, other)
        for inner in _overlapping(_hosts(tunnel.inner_addresses), [*networks, *others]):
            raise _taken(Phrase("The address {address}", address=inner[0]), beside, other)


def check_pair(pair: SaPair, beside: Beside) -> None:
    """Raises CulvertError ORGANISATIONS_COLLIDE."""
    for other in beside.others:
        if any(pair.inbound.spi == sa.spi for sas in other.tunnels for sa in sas.inbound):
            raise _taken(Phrase("The SA number {number}", number=pair.inbound.spi), beside, other)


@dataclass(frozen=True, slots=True)
class _Domain:
    """A name, and `whole` with everything below it."""

    what: Phrase
    fqdn: str
    whole: bool

    def meets(self, other: _Domain) -> bool:
        return self._holds(other.fqdn) or other._holds(self.fqdn)

    def _holds(self, fqdn: str) -> bool:
        return fqdn == self.fqdn or (self.whole and fqdn.endswith(f".{self.fqdn}"))


def _domains(profile: Profile) -> list[_Domain]:
    """Its zones, and the names of resources outside of them."""
    zones = [
        _Domain(Phrase("The zone {name}", name=zone), zone, whole=True) for zone in profile.managed_zones
    ]
    loose = (it.fqdn for it in profile.resources if not profile.manages(it.fqdn))
    return zones + [
        _Domain(Phrase("The name {name}", name=it), it.removeprefix("*."), it.startswith("*."))
        for it in loose
    ]


def _hosts(addresses: Iterable[Address]) -> list[Network]:
    return [ip_network(it) for it in addresses]


def _overlapping(mine: Iterable[Network], theirs: Iterable[Network]) -> Iterator[Network]:
    """The overlapping ones of `mine`. Both may be a thousand."""
    # One of two prefixes that overlap holds the other: of `theirs`, only those that no other of them holds count.
    spans: dict[int, list[tuple[int, int]]] = {4: [], 6: []}
    for version, first, last in sorted(map(_span, theirs), key=lambda span: (span[0], span[1], -span[2])):
        if not spans[version] or first > spans[version][-1][1]:
            spans[version].append((first, last))
    for prefix in mine:
        version, first, last = _span(prefix)
        # The last one that does not begin after it is the only one that can reach into it.
        at = bisect_right(spans[version], last, key=lambda span: span[0]) - 1
        if at >= 0 and spans[version][at][1] >= first:
            yield prefix


def _span(prefix: Network) -> tuple[int, int, int]:
    return prefix.version, int(prefix.network_address), int(prefix.broadcast_address)


def _taken(what: Phrase, beside: Beside, other: Neighbour) -> CulvertError:
    return CulvertError(Reason.ORGANISATIONS_COLLIDE, what=what, organisation=beside.name, other=other.name)
