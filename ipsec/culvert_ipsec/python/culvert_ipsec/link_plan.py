"""Computes the wanted settings of the TUN device, and the steps to them from the present ones. Without I/O.

```
 desired state ─► plan_link() ────────────► Link ─┐
                                                  ├─► steps() ─► addresses in, rule, routes in ─► routes out, addresses out
 kernel ────────► KernelLink.observe() ───► Link ─┘
```
Our routes are in a table of their own, which the kernel searches before the main table and before other VPNs' tables. So
they take precedence over other programs' routes, e.g. over a home network's route for the same prefix, and replace none. An
on-link network that must stay reachable also has a route there, over its own device: if the kernel searched the main table
for its packets, they would leave by the default route as soon as that device is removed.

A wall is a blackhole route. It is in our table, where it outlives the device, and also in the main table, where it still
blocks after another program has removed our rules or our table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.desired import DatapathState, OnLink, TunnelState

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

ROUTE_TABLE = 4500
MAIN_TABLE = 254
"""linux/rtnetlink.h"""
RULE_PRIORITY = 45
"""Our rule follows the kernel's local table (0) and precedes other VPNs' rules, whose default routes would otherwise carry
packets to protected prefixes: NetBird's rules begin at 100, strongSwan's is 220."""

# Bytes: the longest packet that the datapath carries, and the length that every IPv4 host must accept (RFC 791).
MAX_MTU = 9000
MIN_MTU = 576
LEAST_IPV6_MTU = 1280
"""Bytes. IPv6 does not work on a device that carries no packets of this length (RFC 8200 section 5)."""


class Wall(NamedTuple):
    prefix: Network
    table: int


@dataclass(frozen=True, slots=True)
class OnLinkRoute:
    """A route over another device than the TUN device; `device` is its index."""

    prefix: Network
    device: int
    source: Address | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """The TUN device's present or desired state. A route's value is its preferred source; `rules` are IP versions."""

    mtu: int
    up: bool
    addresses: frozenset[Address]
    routes: Mapping[Network, Address | None]
    rules: frozenset[int]
    walls: frozenset[Wall] = frozenset()
    kept: frozenset[Address] = frozenset()
    """The addresses of closed tunnels, without those that an open tunnel has as well."""
    on_link: frozenset[OnLinkRoute] = frozenset()
    mtus: Mapping[Network, int] = field(default_factory=dict[Network, int])
    """The longest packets, in bytes, of the routes that carry only shorter packets than the device."""

    def of(self, families: Collection[int]) -> Link:
        """The part of the settings for a host that knows these IP versions."""
        return Link(
            self.mtu,
            self.up,
            frozenset(address for address in self.addresses if address.version in families),
            {prefix: source for prefix, source in self.routes.items() if prefix.version in families},
            frozenset(version for version in self.rules if version in families),
            frozenset(wall for wall in self.walls if wall.prefix.version in families),
            frozenset(address for address in self.kept if address.version in families),
            frozenset(it for it in self.on_link if it.prefix.version in families),
            {prefix: mtu for prefix, mtu in self.mtus.items() if prefix.version in families},
        )

    def without_kept_in(self, networks: Iterable[Network]) -> Link:
        """The link without the kept addresses in these networks, whose hosts must stay reachable."""
        given_up = {address for network in networks for address in self.kept if address in network}
        return replace(
            self,
            addresses=self.addresses - given_up,
            kept=self.kept - given_up,
            routes={prefix: None if it in given_up else it for prefix, it in self.routes.items()},
        )


@dataclass(frozen=True, slots=True)
class SetLink:
    mtu: int


@dataclass(frozen=True, slots=True)
class AddAddress:
    address: Address


@dataclass(frozen=True, slots=True)
class RemoveAddress:
    address: Address


@dataclass(frozen=True, slots=True)
class AddRule:
    version: int


@dataclass(frozen=True, slots=True)
class ReplaceRoute:
    prefix: Network
    source: Address | None
    mtu: int | None = None


@dataclass(frozen=True, slots=True)
class RemoveRoute:
    prefix: Network


@dataclass(frozen=True, slots=True)
class AddWall:
    wall: Wall


@dataclass(frozen=True, slots=True)
class RemoveWall:
    wall: Wall


@dataclass(frozen=True, slots=True)
class AddOnLink:
    route: OnLinkRoute


@dataclass(frozen=True, slots=True)
class RemoveOnLink:
    route: OnLinkRoute


Step = (
    SetLink
    | AddAddress
    | RemoveAddress
    | AddRule
    | ReplaceRoute
    | RemoveRoute
    | AddWall
    | RemoveWall
    | AddOnLink
    | RemoveOnLink
)


def plan_link(state: DatapathState) -> Link:
    """The settings for this state. Raises DatapathError if the state is invalid."""
    if not MIN_MTU <= state.mtu <= MAX_MTU:
        raise DatapathError(f"An MTU of {state.mtu} bytes is not between {MIN_MTU} and {MAX_MTU}.")
    routes: dict[Network, Address | None] = {_network(prefix): None for prefix in state.blocked}
    addresses = {_address(address) for address in state.inner_addresses}
    blocked = _Cover(routes)
    carried = _Cover(_network(prefix) for tunnel in state.tunnels for prefix in tunnel.remote_prefixes)
    for closed in state.closed:
        inner = {address.version: address for address in map(_address, closed.inner_addresses)}
        addresses.update(inner.values())
        for prefix in map(_network, closed.remote_prefixes):
            # Packets to an unblocked prefix follow other routes; packets in a wider tunnel have that tunnel's address.
            if blocked.holds(prefix) and not carried.holds(prefix):
                routes[prefix] = inner.get(prefix.version)
    for tunnel in state.tunnels:
        inner = _inner(tunnel)
        addresses.update(inner.values())
        prefixes = map(_network, tunnel.remote_prefixes)
        routes |= {prefix: inner.get(prefix.version) for prefix in prefixes}
    # With a smaller MTU the kernel disables IPv6 on the device and refuses to enable it again.
    mtu = max(state.mtu, LEAST_IPV6_MTU)
    in_use = {_address(it) for it in state.inner_addresses}
    in_use.update(address for tunnel in state.tunnels for address in _inner(tunnel).values())
    for tunnel in state.tunnels:
        outer = _address(tunnel.outer_address)
        if any(outer in prefix for prefix in routes):
            raise DatapathError(
                f"The gateway's own address {outer} lies in a prefix that goes through the tunnel, so the tunnel's "
                "packets would never leave. Take the address out of the protected prefixes."
            )
    rules = frozenset(prefix.version for prefix in routes)
    walls = walls_of(_network(prefix) for prefix in state.blocked)
    kept = frozenset(addresses - in_use)
    on_link = frozenset(it for it in map(_on_link, state.on_link) if it.prefix not in routes)
    mtus = dict(_shorter(state.tunnels, mtu))
    link = Link(mtu, True, frozenset(addresses), routes, rules, walls, kept, on_link, mtus)
    return link.without_kept_in(ip_network(_address(tunnel.outer_address)) for tunnel in state.tunnels)


def walls_of(blocked: Iterable[Network]) -> frozenset[Wall]:
    return frozenset(Wall(prefix, table) for prefix in blocked for table in (ROUTE_TABLE, MAIN_TABLE))


def _shorter(tunnels: Iterable[TunnelState], mtu: int) -> Iterator[tuple[Network, int]]:
    """The prefixes of tunnels with a smaller MTU than the device's. Of equal prefixes, the last one counts."""
    carrying = {_network(prefix): tunnel.mtu for tunnel in tunnels for prefix in tunnel.remote_prefixes}
    for prefix, tunnel_mtu in carrying.items():
        least = LEAST_IPV6_MTU if prefix.version == 6 else MIN_MTU
        if tunnel_mtu and max(tunnel_mtu, least) < mtu:
            yield prefix, max(tunnel_mtu, least)


def steps(observed: Link, desired: Link) -> Iterator[Step]:
    """The steps, in an order in which a new route is added before an old one is removed."""
    if not observed.up or observed.mtu != desired.mtu:
        yield SetLink(desired.mtu)
    for address in sorted(desired.addresses - observed.addresses, key=str):
        yield AddAddress(address)
    for wall in sorted(desired.walls - observed.walls, key=str):
        yield AddWall(wall)
    for version in sorted(desired.rules - observed.rules):
        yield AddRule(version)
    # Remove these before a route over the TUN device replaces them.
    for route in sorted(observed.on_link - desired.on_link, key=str):
        yield RemoveOnLink(route)
    for prefix, source in desired.routes.items():
        mtu = desired.mtus.get(prefix)
        if prefix not in observed.routes or (observed.routes[prefix], observed.mtus.get(prefix)) != (
            source,
            mtu,
        ):
            yield ReplaceRoute(prefix, source, mtu)
    for prefix in observed.routes.keys() - desired.routes.keys():
        yield RemoveRoute(prefix)
    for route in sorted(desired.on_link - observed.on_link, key=str):
        yield AddOnLink(route)
    for wall in sorted(observed.walls - desired.walls, key=str):
        yield RemoveWall(wall)
    for address in sorted(observed.addresses - desired.addresses, key=str):
        yield RemoveAddress(address)


class _Cover:
    """A set of prefixes with a fast check whether one of them contains a given prefix."""

    def __init__(self, prefixes: Iterable[Network]) -> None:
        self._known = {(it.version, it.prefixlen, _leading_bits(it, it.prefixlen)) for it in prefixes}
        self._lengths = {(version, length) for version, length, _ in self._known}

    def holds(self, prefix: Network) -> bool:
        return any(
            (version, length, _leading_bits(prefix, length)) in self._known
            for version, length in self._lengths
            if version == prefix.version and length <= prefix.prefixlen
        )


def _leading_bits(prefix: Network, length: int) -> int:
    return int(prefix.network_address) >> (prefix.max_prefixlen - length)


def _on_link(given: OnLink) -> OnLinkRoute:
    return OnLinkRoute(_network(given.prefix), given.device, _address(given.source) if given.source else None)


def _inner(tunnel: TunnelState) -> dict[int, Address]:
    """The tunnel's inner addresses by IP version."""
    given = filter(None, (tunnel.inner_address, tunnel.inner_address6))
    return {address.version: address for address in map(_address, given)}


def _address(text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError:
        raise DatapathError(f"{text!r} is not an IP address.") from None


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise DatapathError(f"{text!r} is not an address prefix.") from None
