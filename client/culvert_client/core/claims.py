"""What of the address space a controller may claim for its tunnels, so that no mistake and no malice of its cuts this
computer off from its own network (RFC 5735, 6890). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from culvert_proto import CulvertError, Reason

from culvert_client.core.grant import Address, Network

MOST_PREFIXES = 1024
"""Our tunable: each is a route and a rule of the system's."""

# Nobody's intranet is wider; the unique local addresses may be claimed whole (RFC 4193).
_WIDEST = {4: 8, 6: 16}
_UNIQUE_LOCAL = IPv6Network("fc00::/7")
# Needed by every computer for itself and its link: this host, loopback, link-local, multicast, broadcast.
_NOBODYS = (
    *map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32")),
    *map(IPv6Network, ("::/127", "fe80::/10", "ff00::/8")),
    # A network's way to IPv4 (RFC 6052, RFC 8215).
    *map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48")),
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What this computer needs to stay in touch: its networks towards the world, and the controller's addresses."""

    networks: frozenset[Network] = frozenset()
    controller: frozenset[Address] = frozenset()


def check_prefixes(prefixes: Iterable[Network]) -> None:
    """What no controller may claim, wherever this computer is. Raises CulvertError CONTROLLER_INVALID."""
    for number, prefix in enumerate(prefixes):
        if number >= MOST_PREFIXES:
            raise _invalid(f"it claims more than {MOST_PREFIXES} prefixes")
        unique_local = isinstance(prefix, IPv6Network) and prefix.subnet_of(_UNIQUE_LOCAL)
        if prefix.prefixlen < _WIDEST[prefix.version] and not unique_local:
            raise _invalid(f"{prefix} is too wide for a private network")
        if any(_overlap(prefix, other) for other in _NOBODYS):
            raise _invalid(f"{prefix} holds addresses that each computer needs for itself")


def check_host(address: Address) -> None:
    """An address of a gateway, or one that is given to this computer. Raises CulvertError CONTROLLER_INVALID."""
    if any(address in other for other in _NOBODYS):
        raise _invalid(f"{address} is no address of a computer")


def check_collisions(prefixes: Iterable[Network], here: Surroundings) -> None:
    """Raises CulvertError ADDRESS_COLLISION."""
    for prefix in prefixes:
        for network in here.networks:
            if _overlap(prefix, network):
                raise CulvertError(
                    Reason.ADDRESS_COLLISION, prefix=prefix, what=f"this computer's own network {network}"
                )
        for address in here.controller:
            if address in prefix:
                raise CulvertError(
                    Reason.ADDRESS_COLLISION, prefix=prefix, what=f"the controller's own address {address}"
                )


def _overlap(one: Network, other: Network) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.overlaps(other)
    return isinstance(other, IPv6Network) and one.overlaps(other)


def _invalid(why: str) -> CulvertError:
    return CulvertError(Reason.CONTROLLER_INVALID, why=why)
