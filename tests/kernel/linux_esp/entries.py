"""Table entries of p4/gateway.p4: one gateway with a WAN and a LAN, and one tunnel of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network

import finsy as fy
from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding

from linux_esp.suites import SUITES, Suite

WAN, LAN = 1, 2
"""Ports, interfaces, roles and next hops alike."""
WAN_MAC, PEER_MAC = "02:00:00:00:01:01", "02:00:00:00:01:02"
LAN_MAC, OFFICE_MAC = "02:00:00:00:02:01", "02:00:00:00:02:10"
GATEWAY = {4: "192.0.2.1", 6: "2001:db8::1"}
PEER = {4: "192.0.2.2", 6: "2001:db8::2"}
GATEWAY_LAN = {4: "10.20.0.1", 6: "fd20::1"}
OFFICE = {4: "10.20.0.10", 6: "fd20::10"}
INNER = {4: "10.99.0.5", 6: "fd99::5"}
OFFICE_PREFIX = {4: "10.20.0.0/16", 6: "fd20::/64"}
INNER_PREFIX = {4: "10.99.0.0/24", 6: "fd99::/64"}
ETHERNET_MTU = 1500
KEK = bytes(range(32))
SUITE_NUMBERS = dict(zip((suite.name for suite in SUITES), (1, 2, 3, 129, 130, 131, 132), strict=True))
_LIMITS = dict.fromkeys(
    ("soft_packets", "soft_bytes", "soft_seconds", "hard_packets", "hard_bytes", "hard_seconds"), 0
)


@dataclass(frozen=True, slots=True)
class Pair:
    """The SAs of one generation of a tunnel."""

    suite: Suite
    outer: int = 4
    esn: bool = True
    in_udp: bool = False
    tunnel: int = 1
    generation: int = 1
    peer_port: int = 4500

    def __str__(self) -> str:
        words = (self.suite.name, f"over-v{self.outer}", "esn" if self.esn else "seq32", "udp" * self.in_udp)
        return "-".join(word for word in words if word)

    @property
    def sa_in(self) -> int:
        return 2 * self.generation

    @property
    def sa_out(self) -> int:
        return 2 * self.generation + 1

    @property
    def spi_in(self) -> int:
        """Towards the gateway."""
        return 0x1000 + self.generation

    @property
    def spi_out(self) -> int:
        return 0x2000 + self.generation

    @property
    def key_in(self) -> bytes:
        return self.suite.key(self.sa_in)

    @property
    def key_out(self) -> bytes:
        return self.suite.key(self.sa_out)


def address(text: str) -> int:
    """As the gateway's tables have it: IPv4 is mapped (RFC 4291 section 2.5.5.2)."""
    parsed = ip_address(text)
    return int(parsed) if parsed.version == 6 else 0xFFFF << 32 | int(parsed)


def prefix(text: str) -> IPv6Network:
    parsed = ip_network(text)
    length = parsed.prefixlen + (96 if parsed.version == 4 else 0)
    return IPv6Network((address(str(parsed.network_address)), length))


def _ternary(text: str) -> tuple[int, int]:
    network = prefix(text)
    return int(network.network_address), int(network.netmask)


def _wrapped(key: bytes) -> int:
    """RFC 5649."""
    return int.from_bytes(aes_key_wrap_with_padding(KEK, key))


def entry(
    table: str, match: Mapping[str, object], action: str, priority: int = 0, **parameters: object
) -> fy.P4TableEntry:
    return fy.P4TableEntry(
        table, match=fy.Match(**match), priority=priority, action=fy.Action(action, **parameters)
    )


def site_entries() -> list[fy.P4TableEntry]:
    """The entries that exist before any tunnel."""
    entries = [
        entry("port_role", {"port": WAN, "vlan": 0}, "set_wan", interface_id=WAN, mac=WAN_MAC),
        entry("port_role", {"port": LAN, "vlan": 0}, "set_lan", interface_id=LAN, mac=LAN_MAC),
    ]
    hops = ((WAN, WAN_MAC, PEER_MAC), (LAN, LAN_MAC, OFFICE_MAC))
    for number, ours, theirs in hops:
        hop = {"role": number, "port": number, "vlan": 0, "mtu": ETHERNET_MTU}
        entries.append(entry("nexthop", {"id": number}, "set_nexthop", **hop, src_mac=ours, dst_mac=theirs))
    for interface, addresses in ((WAN, GATEWAY), (LAN, GATEWAY_LAN), (0, GATEWAY_LAN)):
        source = {"ipv4": int(ip_address(addresses[4])), "ipv6": int(IPv6Address(addresses[6]))}
        entries.append(entry("icmp_source", {"interface_id": interface}, "set_source", **source))
        for own in addresses.values() if interface else ():
            match = {"interface_id": interface, "address": address(own)}
            entries.append(entry("own_address", match, "ours"))
    for version in (4, 6):
        for target, number in ((PEER[version], WAN), (OFFICE_PREFIX[version], LAN)):
            entries.append(entry("route", {"dst": str(prefix(target))}, "via", nexthop_id=number))
    return entries


def inbound(pair: Pair, inner_mtu: int = 0) -> list[fy.P4TableEntry]:
    """The SA that opens, and what may come out of it."""
    sa = {"sa_id": pair.sa_in, "slot": pair.generation, "suite": SUITE_NUMBERS[pair.suite.name]}
    match = {"dst": address(GATEWAY[pair.outer]), "spi": pair.spi_in}
    peer = {"endpoint": pair.tunnel, "tag": pair.tunnel}
    wrapped = {"wrapped_key": _wrapped(pair.key_in), "esn": int(pair.esn), "replay_window": 1024}
    entries = [entry("sad_in", match, "open", **sa, **wrapped, **_LIMITS, **peer)]
    for version in (4, 6):
        selector = {"src": _ternary(INNER[version]), "dst": _ternary(OFFICE_PREFIX[version])}
        match = {"sa_id": pair.sa_in, **selector}
        entries.append(entry("spd_in", match, "permit", 10, inner_mtu=inner_mtu))
    return entries


def outbound(pair: Pair) -> list[fy.P4TableEntry]:
    """The SA that seals."""
    sport, dport = (4500, pair.peer_port) if pair.in_udp else (0, 0)
    outer = {"src": address(GATEWAY[pair.outer]), "dst": address(PEER[pair.outer])}
    sa = {"slot": pair.generation, "suite": SUITE_NUMBERS[pair.suite.name], "spi": pair.spi_out}
    wrapped = {"wrapped_key": _wrapped(pair.key_out), "esn": int(pair.esn)}
    ends = {"sport": sport, "dport": dport, "endpoint": pair.tunnel, "tag": pair.tunnel}
    return [entry("sad_out", {"sa_id": pair.sa_out}, "seal", **sa, **wrapped, **_LIMITS, **outer, **ends)]


def policy(pair: Pair, inner_mtu: int = 0) -> list[fy.P4TableEntry]:
    """The entries of the traffic that the pair encrypts."""
    found: list[fy.P4TableEntry] = []
    for version in (4, 6):
        selector = {"src": _ternary(OFFICE_PREFIX[version]), "dst": _ternary(INNER[version])}
        match = {"role": LAN, **selector}
        found.append(entry("spd_out", match, "protect", 10, sa_id=pair.sa_out, inner_mtu=inner_mtu))
    return found
