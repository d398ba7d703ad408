"""Table entries of p4/gateway.p4: a site with a WAN and a LAN, and tunnels. Addresses are 128 bits, IPv4 mapped.

203.0.113.10          198.51.100.2              10.20.0.10
2001:db8:cafe::10     2001:db8:100::2           fd00:20::10
peer ───── router ───── wan  gateway  lan ───── server
inner 10.99.0.5, fd00:99::5
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network
from typing import Any

import finsy as fy
from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding
from esp_peer import AES_GCM_256, Suite

KEK = bytes(range(32))
WAN, LAN = 1, 2  # roles
WAN_PORT, LAN_PORT, LAN2_PORT = 1, 2, 3
TUNNEL_ID, WAN_ID, LAN_ID, LAN2_ID = 0, 1, 2, 3  # interface ids
WAN_HOP, LAN_HOP, LAN2_HOP = 1, 2, 3
WAN_MAC, ROUTER_MAC = "02:00:00:00:01:01", "02:00:00:00:01:02"
LAN_MAC, SERVER_MAC = "02:00:00:00:02:01", "02:00:00:00:02:10"
LAN2_MAC, SERVER2_MAC = "02:00:00:00:03:01", "02:00:00:00:03:10"
ANY = 2**128 - 1


@dataclass(frozen=True)
class Family:
    """An address of each place."""

    version: int
    gateway: str
    router: str
    peer: str
    elsewhere: str
    inner: str
    server: str
    lan: str
    intranet: str
    anywhere: str  # of this version: ::/0 would hold the mapped ones too


V4 = Family(
    4, "198.51.100.2", "198.51.100.1", "203.0.113.10", "192.0.2.77", "10.99.0.5", "10.20.0.10", "10.20.0.1",
    "10.20.0.0/16", "0.0.0.0/0",
)  # fmt: skip
V6 = Family(
    6, "2001:db8:100::2", "2001:db8:100::1", "2001:db8:cafe::10", "2001:db8:beef::77", "fd00:99::5", "fd00:20::10",
    "fd00:20::1", "fd00:20::/32", "2000::/3",
)  # fmt: skip
FAMILIES = (V4, V6)


def ip(address: str) -> int:
    """The gateway's form of an address."""
    parsed = ip_address(address)
    return int(parsed) | (0xFFFF << 32 if parsed.version == 4 else 0)


def host(address: str) -> tuple[int, int]:
    """A ternary match of one address."""
    return ip(address), ANY


def wrap_key(key: bytes, kek: bytes = KEK) -> int:
    """RFC 5649 under a gateway's key-encryption key."""
    return int.from_bytes(aes_key_wrap_with_padding(kek, key))


@dataclass(frozen=True)
class Site:
    """The entries that do not change with tunnels. `mtu` is the LAN next hop's."""

    wan_vlan: int = 0
    lan_vlan: int = 0
    mtu: int = 0
    wan_mtu: int = 0

    def entries(self) -> list[fy.P4TableEntry]:
        lan2 = port_role(LAN2_PORT, 0, "set_lan", LAN2_ID, LAN2_MAC)
        made = [
            port_role(WAN_PORT, self.wan_vlan, "set_wan", WAN_ID, WAN_MAC),
            port_role(LAN_PORT, self.lan_vlan, "set_lan", LAN_ID, LAN_MAC),
            lan2,
            nexthop(WAN_HOP, WAN, WAN_PORT, self.wan_vlan, WAN_MAC, ROUTER_MAC, self.wan_mtu),
            nexthop(LAN_HOP, LAN, LAN_PORT, self.lan_vlan, LAN_MAC, SERVER_MAC, self.mtu),
            nexthop(LAN2_HOP, LAN, LAN2_PORT, 0, LAN2_MAC, SERVER2_MAC, self.mtu),
        ]
        for interface, attribute in ((WAN_ID, "gateway"), (LAN_ID, "lan"), (TUNNEL_ID, "lan")):
            v4, v6 = (getattr(family, attribute) for family in FAMILIES)
            action = fy.Action("set_source", ipv4=int(ip_address(v4)), ipv6=ip(v6))
            match = fy.Match(interface_id=interface)
            made.append(fy.P4TableEntry("icmp_source", match=match, action=action))
            if interface != TUNNEL_ID:
                made += [own_address(interface, v4), own_address(interface, v6)]
        for family in FAMILIES:
            made += [route(family.anywhere, WAN_HOP), route(family.intranet, LAN_HOP)]
        return made


def port_role(port: int, vlan: int, action: str, interface_id: int, mac: str) -> fy.P4TableEntry:
    match = fy.Match(port=port, vlan=vlan)
    return fy.P4TableEntry(
        "port_role", match=match, action=fy.Action(action, interface_id=interface_id, mac=mac)
    )


def own_address(interface_id: int, address: str) -> fy.P4TableEntry:
    match = fy.Match(interface_id=interface_id, address=ip(address))
    return fy.P4TableEntry("own_address", match=match, action=fy.Action("ours"))


def prefix(network: str) -> tuple[int, int]:
    parsed = ip_network(network)
    return ip(str(parsed.network_address)), parsed.prefixlen + (96 if parsed.version == 4 else 0)


def route(network: str, nexthop_id: int) -> fy.P4TableEntry:
    match = fy.Match(dst=prefix(network))
    return fy.P4TableEntry("route", match=match, action=fy.Action("via", nexthop_id=nexthop_id))


def group_route(network: str, group_id: int, nexthops: list[int]) -> list[fy.P4TableEntry]:
    action = fy.Action("via_group", group_id=group_id, members=len(nexthops))
    made = [fy.P4TableEntry("route", match=fy.Match(dst=prefix(network)), action=action)]
    for member, nexthop_id in enumerate(nexthops):
        match = fy.Match(group_id=group_id, member=member)
        via = fy.Action("via", nexthop_id=nexthop_id)
        made.append(fy.P4TableEntry("ecmp_member", match=match, action=via))
    return made


def nexthop(
    number: int, role: int, port: int, vlan: int, src_mac: str, dst_mac: str, mtu: int = 0
) -> fy.P4TableEntry:
    action = fy.Action(
        "set_nexthop", role=role, port=port, vlan=vlan, src_mac=src_mac, dst_mac=dst_mac, mtu=mtu
    )
    return fy.P4TableEntry("nexthop", match=fy.Match(id=number), action=action)


def policy(role: int, action: fy.Action, priority: int = 10, **match: Any) -> fy.P4TableEntry:
    return fy.P4TableEntry("spd_out", match=fy.Match(role=role, **match), priority=priority, action=action)


def bypass(role: int, source: str, destination: str) -> fy.P4TableEntry:
    return policy(role, fy.Action("bypass"), src=host(source), dst=host(destination))


@dataclass(frozen=True)
class Limits:
    """0: none."""

    soft_packets: int = 0
    soft_bytes: int = 0
    soft_seconds: int = 0
    hard_packets: int = 0
    hard_bytes: int = 0
    hard_seconds: int = 0


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Tunnel:
    """Both SAs of a tunnel and their policies. New keys make it new to the engine, whatever its slot held before."""

    key_in: bytes
    key_out: bytes
    outer: Family = V4
    inner: Family = V4
    suite: Suite = AES_GCM_256
    esn: bool = True
    peer_port: int = 40123  # 0: ESP without UDP
    number: int = 1
    spi_in: int = 0x1001
    spi_out: int = 0x2002
    inner_mtu: int = 0
    endpoint: int = 0
    tag: int = 0
    replay_window: int = 1024
    limits_in: Limits = NO_LIMITS
    limits_out: Limits = NO_LIMITS
    kek: bytes = field(default=KEK, repr=False)

    @property
    def sa_in(self) -> int:
        return self.number * 2

    @property
    def sa_out(self) -> int:
        return self.number * 2 + 1

    def but(self, **changes: Any) -> Tunnel:
        return replace(self, **changes)

    def sad_in(self) -> fy.P4TableEntry:
        action = fy.Action(
            "open", sa_id=self.sa_in, slot=self.number, suite=self.suite.number,
            wrapped_key=wrap_key(self.key_in, self.kek), esn=int(self.esn), replay_window=self.replay_window,
            **vars(self.limits_in), endpoint=self.endpoint, tag=self.tag,
        )  # fmt: skip
        match = fy.Match(dst=ip(self.outer.gateway), spi=self.spi_in)
        return fy.P4TableEntry("sad_in", match=match, action=action)

    def sad_out(self) -> fy.P4TableEntry:
        action = fy.Action(
            "seal", slot=self.number, suite=self.suite.number, wrapped_key=wrap_key(self.key_out, self.kek),
            spi=self.spi_out, esn=int(self.esn), **vars(self.limits_out), src=ip(self.outer.gateway),
            dst=ip(self.outer.peer), sport=4500 if self.peer_port else 0, dport=self.peer_port,
            endpoint=self.endpoint, tag=self.tag,
        )  # fmt: skip
        return fy.P4TableEntry("sad_out", match=fy.Match(sa_id=self.sa_out), action=action)

    def spd_in(self) -> fy.P4TableEntry:
        match = fy.Match(sa_id=self.sa_in, src=host(self.inner.inner), dst=host(self.inner.server))
        action = fy.Action("permit", inner_mtu=self.inner_mtu)
        return fy.P4TableEntry("spd_in", match=match, priority=10, action=action)

    def spd_out(self) -> fy.P4TableEntry:
        action = fy.Action("protect", sa_id=self.sa_out, inner_mtu=self.inner_mtu)
        return policy(LAN, action, src=host(self.inner.server), dst=host(self.inner.inner))

    def errors_out(self) -> fy.P4TableEntry:
        """The gateway's own ICMP errors go back into the tunnel."""
        action = fy.Action("protect", sa_id=self.sa_out, inner_mtu=0)
        return policy(LAN, action, src=host(self.inner.lan), dst=host(self.inner.inner))

    def entries(self) -> list[fy.P4TableEntry]:
        return [self.sad_in(), self.spd_in(), self.sad_out(), self.spd_out(), self.errors_out()]
