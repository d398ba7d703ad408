"""A gateway's two ports, and the entries that it always holds. Pure.

              port wan                    port lan
   internet ──── mac ── [ gateway ] ── mac, address ──── neighbours (address → mac)
     next_hop_mac

Routes fail closed: whatever belongs inside (LAN prefix, address pool) and has no neighbour leads to a next hop that
does not exist, and so is dropped; only the rest goes to the WAN.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from culvert_service.gateways.entry import Entry, entry

_ARP_REQUEST = 1
_WAN_NEXT_HOP = 1
_FIRST_NEIGHBOUR = 2
# No entry has this id: what is routed to it is dropped and counted as NO_NEXTHOP.
_NOWHERE = 65535


@dataclass(frozen=True, slots=True)
class Wan:
    port: int
    mac: str
    next_hop_mac: str


@dataclass(frozen=True, slots=True)
class Lan:
    port: int
    mac: str
    address: str
    prefix: str
    neighbours: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Site:
    """`address` is the gateway's outer address, `pool` the prefix of its devices' inner addresses."""

    address: str
    pool: str
    wan: Wan
    lan: Lan

    def serves(self, address: str) -> bool:
        return address in self.lan.neighbours


def static_entries(site: Site) -> list[Entry]:
    """Ports, ARP, next hops and routes."""
    wan, lan = site.wan, site.lan
    neighbours = sorted(lan.neighbours.items())
    entries = [
        entry("port_role", {"port": wan.port}, "set_wan"),
        entry("port_role", {"port": lan.port}, "set_lan"),
        _arp(wan.port, site.address, wan.mac),
        _arp(lan.port, lan.address, lan.mac),
        _next_hop(_WAN_NEXT_HOP, wan.port, wan.mac, wan.next_hop_mac),
        _route("0.0.0.0/0", _WAN_NEXT_HOP),
        _route(lan.prefix, _NOWHERE),
        _route(site.pool, _NOWHERE),
    ]
    for number, (address, mac) in enumerate(neighbours, start=_FIRST_NEIGHBOUR):
        entries += [_next_hop(number, lan.port, lan.mac, mac), _route(f"{address}/32", number)]
    return entries


def ip_number(address: str) -> int:
    return int(ipaddress.IPv4Address(address))


def _mac_number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


def _arp(port: int, address: str, mac: str) -> Entry:
    match = {"port": port, "operation": _ARP_REQUEST, "target": ip_number(address)}
    return entry("arp_responder", {**match}, "reply", {"mac": _mac_number(mac)})


def _next_hop(number: int, port: int, src: str, dst: str) -> Entry:
    params = {"port": port, "src_mac": _mac_number(src), "dst_mac": _mac_number(dst)}
    return entry("nexthop", {"id": number}, "set_nexthop", params)


def _route(prefix: str, next_hop: int) -> Entry:
    network = ipaddress.IPv4Network(prefix)
    # P4Runtime section 9.1.1: a prefix of length 0 is "don't care" and is left out.
    match = {"dst": (int(network.network_address), network.prefixlen)} if network.prefixlen else {}
    return entry("route", {**match}, "via", {"nexthop_id": next_hop})
