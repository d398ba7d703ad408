"""A gateway's two ports, and its static entries. Pure.

                 port wan                         port lan
   internet ──── mac, address ── [ gateway ] ── mac, address ──── neighbours (address → mac)
     next hops                                                      └─ some are routers (prefix → address)

Routes fail closed: packets to inside prefixes (LAN, pools) without a neighbour or router lead to a next hop that does
not exist, and are dropped. Packets to all other addresses go to the WAN.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from culvert_service.gateways import mapped
from culvert_service.gateways.entry import Entry, entry

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# The roles of p4/gateway; also used as interface ids.
WAN, LAN = 1, 2
# The interface id of ICMP errors about packets from a tunnel.
_OUT_OF_TUNNEL = 0
_WAN_GROUP = 1
# The MAC address of a neighbour that was never found: it gets no next hop.
UNKNOWN_MAC = "00:00:00:00:00:00"
# No next hop has this id: packets routed to it are dropped and counted as NO_NEXTHOP.
_NOWHERE = 65535


@dataclass(frozen=True, slots=True)
class Wan:
    """`next_hops`: MAC addresses; several share the flows (ECMP). `vlan` 0: untagged. `mtu`: bytes of an IP packet."""

    port: int
    mac: str
    next_hops: Sequence[str]
    vlan: int = 0
    mtu: int = 1500


@dataclass(frozen=True, slots=True)
class Lan:
    port: int
    mac: str
    address: str
    prefix: str
    neighbours: Mapping[str, str]
    address6: str | None = None
    prefix6: str | None = None
    vlan: int = 0
    mtu: int = 1500
    # Prefixes behind the LAN, each with the neighbour that routes there.
    routes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Probe:
    """The gateway answers a packet to `target` whose hop limit ends there from `source`, its LAN address."""

    target: str
    source: str


class OuterAddress(NamedTuple):
    """`own`: in the packets at the gateway. `public`: the destination of devices and other gateways."""

    own: str
    public: str


@dataclass(frozen=True, slots=True)
class Site:
    """`pool`: the prefix of inner addresses; `address6`, `pool6`: for IPv6. The public addresses are as in OuterAddress."""

    address: str
    pool: str
    wan: Wan
    lan: Lan
    public_address: str
    address6: str | None = None
    pool6: str | None = None
    public_address6: str | None = None

    def facing(self, peer: str) -> OuterAddress | None:
        """The gateway's outer address of the peer's family; None without one."""
        if mapped.family(peer) == 4:
            return OuterAddress(self.address, self.public_address)
        if self.address6 is None:
            return None
        return OuterAddress(self.address6, self.public_address6 or self.address6)

    def serves(self, prefix: str) -> bool:
        """Whether a device with an address of the prefix's family can reach a host in the prefix."""
        return (":" not in prefix or self.pool6 is not None) and self.reaches(prefix)

    def reaches(self, prefix: str) -> bool:
        """Whether a host in the prefix is on the LAN or behind it."""
        wanted = ipaddress.ip_network(prefix)
        if any(within(wanted, ipaddress.ip_network(behind)) for behind in self.lan.routes):
            return True
        return self.surrounds(prefix) and any(
            ipaddress.ip_address(address) in wanted for address in self.lan.neighbours
        )

    def surrounds(self, prefix: str) -> bool:
        """Whether the prefix is in the LAN itself."""
        inside = map(ipaddress.ip_network, filter(None, (self.lan.prefix, self.lan.prefix6)))
        return any(within(ipaddress.ip_network(prefix), lan) for lan in inside)

    def probe(self, prefixes: Iterable[str]) -> Probe | None:
        """The probe for a tunnel with these prefixes. Its target is an address that the gateway can forward to."""
        for prefix in filter(self.serves, prefixes):
            wanted = ipaddress.ip_network(prefix)
            source = self.lan.address if wanted.version == 4 else self.lan.address6
            first = wanted[0] if wanted.num_addresses == 1 else wanted[1]
            hosts = [*map(ipaddress.ip_address, self.lan.neighbours), first]
            target = next((it for it in hosts if it in wanted and self._forwards(it)), None)
            if source is not None and target is not None:
                return Probe(str(target), source)
        return None

    def _forwards(self, address: Address) -> bool:
        """Whether `static_entries` routes the address to a next hop on the LAN."""
        if str(address) in self.lan.neighbours:
            return True
        around = max((it for it in self.inside() if address in it), key=lambda it: it.prefixlen, default=None)
        return around is not None and str(around) in self.lan.routes

    def inside(self) -> list[Network]:
        """The prefixes on the gateway's inner side: LAN, pools, and routed ones."""
        known = (self.lan.prefix, self.lan.prefix6, self.pool, self.pool6, *self.lan.routes)
        return [ipaddress.ip_network(prefix) for prefix in known if prefix is not None]


def within(inner: Network, outer: Network) -> bool:
    """Whether `inner` is part of `outer`; False for different families."""
    return inner.network_address in outer and inner.prefixlen >= outer.prefixlen


def static_entries(site: Site) -> list[Entry]:
    """Ports, own addresses, ICMP sources, next hops and routes."""
    return [*_interfaces(site), *_wan_routes(site), *_inside_routes(site)]


def _interfaces(site: Site) -> Iterator[Entry]:
    wan, lan = site.wan, site.lan
    for interface, action, port in ((WAN, "set_wan", wan), (LAN, "set_lan", lan)):
        match = {"port": port.port, "vlan": port.vlan}
        yield entry("port_role", {**match}, action, {"interface_id": interface, "mac": mac_number(port.mac)})
    own = ((WAN, site.address, site.address6), (LAN, lan.address, lan.address6))
    for interface, *addresses in own:
        for address in filter(None, addresses):
            yield entry("own_address", {"interface_id": interface, "address": mapped.number(address)}, "ours")
    for interface, address, address6 in (*own, (_OUT_OF_TUNNEL, lan.address, lan.address6)):
        sources = {"ipv4": mapped.ipv4(address), "ipv6": mapped.number(address6) if address6 else 0}
        yield entry("icmp_source", {"interface_id": interface}, "set_source", sources)


def _wan_routes(site: Site) -> Iterator[Entry]:
    wan, hops = site.wan, site.wan.next_hops
    for hop_id, mac in enumerate(hops, start=1):
        yield from _next_hop(hop_id, WAN, wan, mac)
    action, params = "via", {"nexthop_id": 1}
    if len(hops) > 1:
        # Flows go to the next hops that were found.
        there = [hop_id for hop_id, mac in enumerate(hops, start=1) if mac != UNKNOWN_MAC] or [1]
        action, params = "via_group", {"group_id": _WAN_GROUP, "members": len(there)}
        for member, hop_id in enumerate(there):
            match = {"group_id": _WAN_GROUP, "member": member}
            yield entry("ecmp_member", {**match}, "via", {"nexthop_id": hop_id})
    yield _route("0.0.0.0/0", action, params)
    if site.address6:
        yield _route("::/0", action, params)


def _inside_routes(site: Site) -> Iterator[Entry]:
    lan = site.lan
    for inside in filter(None, (lan.prefix, lan.prefix6, site.pool, site.pool6)):
        yield _route(inside, "via", {"nexthop_id": _NOWHERE})
    first = len(site.wan.next_hops) + 1
    hops = {address: hop_id for hop_id, address in enumerate(sorted(lan.neighbours), start=first)}
    for address, hop_id in hops.items():
        yield from _next_hop(hop_id, LAN, lan, lan.neighbours[address])
        host = f"{address}/{32 if mapped.family(address) == 4 else 128}"
        yield _route(host, "via", {"nexthop_id": hop_id})
    for prefix, router in lan.routes.items():
        yield _route(prefix, "via", {"nexthop_id": hops[router]})


def mac_number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


def _next_hop(hop_id: int, role: int, port: Wan | Lan, mac: str) -> Iterator[Entry]:
    if mac == UNKNOWN_MAC:
        return
    params = {"role": role, "port": port.port, "vlan": port.vlan, "mtu": port.mtu}
    params |= {"src_mac": mac_number(port.mac), "dst_mac": mac_number(mac)}
    yield entry("nexthop", {"id": hop_id}, "set_nexthop", params)


def _route(prefix: str, action: str, params: dict[str, int]) -> Entry:
    dst = mapped.prefix(prefix)
    # P4Runtime section 9.1.1: a prefix of length 0 is "don't care" and is left out.
    return entry("route", {"dst": dst} if dst[1] else {}, action, params)
