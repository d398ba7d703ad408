"""Packets that the policies let through, and the causes under which the rest is dropped."""

from __future__ import annotations

import asyncio
from typing import Any

import finsy as fy
import pytest
from gateway_entries import (
    FAMILIES,
    LAN,
    LAN2_HOP,
    LAN_HOP,
    V4,
    V6,
    WAN_HOP,
    Family,
    Tunnel,
    bypass,
    group_route,
    host,
    policy,
    prefix,
    route,
)  # fmt: skip
from gateway_rig import QUIET, Drop, Gateway, build, ip_header, new_tunnel, open_frame, to_inner, to_server
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt
from scapy.layers.inet6 import IPv6ExtHdrFragment as Fragment
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw

pytestmark = pytest.mark.slow
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda it: f"v{it.version}")


@families
class TestFrames:
    async def test_port_and_vlan_need_a_role(self, gateway: Gateway, family: Family) -> None:
        async with gateway.expect_drops(Drop.NO_ROLE):
            frame = gateway.on_wan(to_server(family))
            gateway.wan.send(Ether(src=frame.src, dst=frame.dst) / Dot1Q(vlan=7) / frame.payload)

    async def test_ip_is_meant(self, gateway: Gateway, family: Family) -> None:
        frame = gateway.on_wan(to_server(family))
        ether = Ether(src=frame.src, dst=frame.dst)
        double = ether / Dot1Q(vlan=0) / Dot1Q(vlan=0) / frame.payload
        for other in (
            ether / Dot1AD(vlan=0) / frame.payload,
            double,
            Ether(bytes(ether)[:12] + b"\x88\xcc" + bytes(46)),
        ):
            async with gateway.expect_drops(Drop.NOT_IP):
                gateway.wan.send(other)

    async def test_frames_for_others(self, gateway: Gateway, family: Family) -> None:
        for mac in ("02:00:00:00:01:09", "ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01", "01:00:5e:00:00:01"):
            async with gateway.expect_drops(Drop.NOT_OUR_MAC):
                gateway.wan.send(gateway.on_wan(to_server(family), dst=mac))
        async with gateway.expect_drops(Drop.NOT_OUR_MAC):
            gateway.wan.send(gateway.on_wan(to_server(family), src="03:00:00:00:00:01"))


UNSPECIFIED = "0.0.0.0"  # noqa: S104
MARTIANS = [
    *[(bad, V4.inner) for bad in (UNSPECIFIED, "0.1.2.3", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255")],
    *[(V4.server, bad) for bad in (UNSPECIFIED, "127.0.0.1", "224.0.0.251", "255.255.255.255", "169.254.1.1")],
    *[(bad, V6.inner) for bad in ("::", "::1", "ff02::1", "::ffff:10.20.0.10", "::10.20.0.10", "fe80::1")],
    *[(V6.server, bad) for bad in ("::", "::1", "ff0e::1", "::ffff:10.99.0.5", "fe80::5")],
    ("169.254.1.1", V4.inner),
    (V4.server, V4.server),
    (V6.server, V6.server),
]  # fmt: skip


@pytest.mark.parametrize(("source", "destination"), MARTIANS)
async def test_martians(gateway: Gateway, source: str, destination: str) -> None:
    """Martians come from the wire, and out of a tunnel whose policy lets everything through."""
    everything = policy(LAN, fy.Action("bypass"))
    tunnel = new_tunnel()
    permit = fy.P4TableEntry(
        "spd_in", match=fy.Match(sa_id=tunnel.sa_in), priority=1, action=fy.Action("permit", inner_mtu=0)
    )
    await gateway.insert(everything, tunnel.sad_in(), permit)
    family = V6 if ":" in source else V4
    packet = build(ip_header(family, source, destination), b"")
    async with gateway.expect_drops(Drop.MARTIAN):
        gateway.lan.send(gateway.on_lan(packet))
    async with gateway.expect_drops(Drop.MARTIAN):
        gateway.wan.send(gateway.seal(tunnel, packet, 1))


async def test_a_mapped_address_is_not_its_ipv4_address(gateway: Gateway) -> None:
    """IPv6 cannot borrow what IPv4 is allowed."""
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    packet = build(IPv6(src="::ffff:10.99.0.5", dst="::ffff:10.20.0.10"), b"")
    async with gateway.expect_drops(Drop.MARTIAN):
        gateway.wan.send(gateway.seal(tunnel, packet, 1))


class TestInboundSelectors:
    """RFC 4301 section 5.2."""

    async def inserted(self, gateway: Gateway, family: Family, **match: Any) -> Any:
        tunnel = new_tunnel(inner=family)
        permit = fy.P4TableEntry(
            "spd_in", match=fy.Match(sa_id=tunnel.sa_in, src=host(family.inner), dst=host(family.server), **match),
            priority=10, action=fy.Action("permit", inner_mtu=0),
        )  # fmt: skip
        await gateway.insert(tunnel.sad_in(), permit)
        return tunnel

    @families
    async def test_each_field_counts(self, gateway: Gateway, family: Family) -> None:
        tunnel = await self.inserted(
            gateway, family, protocol=(6, 0xFF), sport=(1000, 2000), dport=(443, 443)
        )

        def tcp(
            sport: int = 1500, dport: int = 443, source: str = family.inner, to: str = family.server
        ) -> Packet:
            return build(ip_header(family, source, to), TCP(sport=sport, dport=dport))

        for sequence, sport in enumerate((1000, 1500, 2000), start=1):
            gateway.wan.send(gateway.seal(tunnel, tcp(sport), sequence))
            assert gateway.lan.receive() is not None
        bad = [
            tcp(sport=999),
            tcp(sport=2001),
            tcp(dport=442),
            tcp(source=family.peer),
            tcp(to=family.elsewhere),
            build(ip_header(family, family.inner, family.server), UDP(sport=1500, dport=443)),
        ]
        for sequence, packet in enumerate(bad, start=10):
            async with gateway.expect_drops(Drop.SELECTOR):
                gateway.wan.send(gateway.seal(tunnel, packet, sequence))

    async def test_another_sa_has_other_selectors(self, gateway: Gateway) -> None:
        await self.inserted(gateway, V4)
        other = new_tunnel(number=2, spi_in=0x1003)
        await gateway.insert(other.sad_in())
        async with gateway.expect_drops(Drop.SELECTOR):
            gateway.wan.send(gateway.seal(other, to_server(V4), 1))

    async def test_other_extension_headers_are_the_protocol(self, gateway: Gateway) -> None:
        tunnel = await self.inserted(gateway, V6, protocol=(17, 0xFF))
        packet = IPv6(src=V6.inner, dst=V6.server) / IPv6ExtHdrDestOpt() / UDP(sport=1, dport=6000)
        async with gateway.expect_drops(Drop.SELECTOR):
            gateway.wan.send(gateway.seal(tunnel, packet, 1))
        await gateway.insert(tunnel.spd_in())
        gateway.wan.send(gateway.seal(tunnel, packet, 2))
        assert gateway.lan.receive() is not None


@families
class TestOutboundPolicy:
    async def test_the_default_is_to_discard(self, gateway: Gateway, family: Family) -> None:
        async with gateway.expect_drops(Drop.POLICY):
            gateway.lan.send(gateway.on_lan(to_inner(family)))
        async with gateway.expect_drops(Drop.POLICY):
            gateway.wan.send(gateway.on_wan(to_server(family)))

    async def test_bypass_is_for_one_side(self, gateway: Gateway, family: Family) -> None:
        await gateway.insert(bypass(LAN, family.server, family.elsewhere))
        out = build(ip_header(family, family.server, family.elsewhere), b"clear")
        gateway.lan.send(gateway.on_lan(out))
        left = gateway.wan.receive()
        assert left is not None
        assert left[UDP].payload.load == b"clear"
        async with gateway.expect_drops(Drop.POLICY):
            gateway.wan.send(gateway.on_wan(out))

    async def test_a_higher_priority_wins(self, gateway: Gateway, family: Family) -> None:
        tunnel = new_tunnel(inner=family)
        discard = policy(LAN, fy.Action("discard"), priority=20, protocol=(17, 0xFF), dport=(53, 53))
        await gateway.insert(tunnel.entries(), discard)
        async with gateway.expect_drops(Drop.POLICY):
            gateway.lan.send(
                gateway.on_lan(build(ip_header(family, family.server, family.inner), UDP(dport=53)))
            )
        await gateway.seals(tunnel)

    async def test_protected_is_sealed_or_dropped(self, gateway: Gateway, family: Family) -> None:
        tunnel = new_tunnel(inner=family)
        await gateway.insert(tunnel.spd_out())
        async with gateway.expect_drops(Drop.NO_SA):
            gateway.lan.send(gateway.on_lan(to_inner(family)))
        await gateway.insert(tunnel.but(kek=bytes(32)).sad_out())
        async with gateway.expect_drops(Drop.KEY):
            gateway.lan.send(gateway.on_lan(to_inner(family)))
        await gateway.switch.modify([tunnel.sad_out()])
        await gateway.seals(tunnel)

    async def test_extension_headers_stay(self, gateway: Gateway, family: Family) -> None:
        if family.version == 4:
            packet = (
                IP(src=V4.server, dst=V4.inner, flags="MF", id=77)
                / UDP(sport=1, dport=2, len=900)
                / Raw(bytes(64))
            )
        else:
            packet = (
                IPv6(src=V6.server, dst=V6.inner)
                / Fragment(m=1, id=77, nh=6)
                / TCP(flags="S")
                / Raw(bytes(60))
            )
        packet = type(packet)(bytes(packet))
        tunnel = new_tunnel(inner=family)
        await gateway.insert(tunnel.entries())
        inner = open_frame(tunnel, await gateway.seals(tunnel, packet))
        assert bytes(inner)[40:] == bytes(packet)[40:]
        assert (inner.id if family.version == 4 else inner[Fragment].id) == 77


def fragment(
    family: Family, source: str, destination: str, offset: int, *, identification: int = 9, port: int = 6000
) -> Packet:
    """Returns a fragment of a UDP datagram. `offset` is in units of 8 bytes; at 0, both ports are `port`."""
    payload = UDP(sport=port, dport=port, len=500) / Raw(bytes(40)) if offset == 0 else Raw(bytes(48))
    if family.version == 4:
        flags = "MF" if offset == 0 else ""
        return (
            IP(src=source, dst=destination, proto=17, id=identification, flags=flags, frag=offset) / payload
        )
    header = Fragment(m=int(offset == 0), offset=offset, id=identification, nh=17)
    return IPv6(src=source, dst=destination) / header / payload


@families
class TestFragments:
    """Policies with ports: a later fragment passes with the first of its datagram (RFC 4301 section 7.4)."""

    async def test_out_of_a_tunnel(self, gateway: Gateway, family: Family) -> None:
        tunnel = new_tunnel(inner=family)
        permit = fy.P4TableEntry(
            "spd_in", priority=10, action=fy.Action("permit", inner_mtu=0),
            match=fy.Match(sa_id=tunnel.sa_in, protocol=(17, 0xFF), dport=(6000, 6000)),
        )  # fmt: skip
        other = new_tunnel(number=2, spi_in=0x1003, inner=family)
        other_permit = fy.P4TableEntry(
            "spd_in", priority=10, action=fy.Action("permit", inner_mtu=0),
            match=fy.Match(sa_id=other.sa_in, protocol=(17, 0xFF), dport=(6000, 6000)),
        )  # fmt: skip
        await gateway.insert(tunnel.sad_in(), permit, other.sad_in(), other_permit)
        sequence = 0

        def send(offset: int, of: Tunnel = tunnel, **fields: int) -> None:
            nonlocal sequence
            sequence += 1
            inner = fragment(family, family.inner, family.server, offset, **fields)
            gateway.wan.send(gateway.seal(of, inner, sequence))

        async with gateway.expect_drops(Drop.SELECTOR):
            send(6)
        for offset in (0, 6, 12):
            send(offset)
            arrived = gateway.lan.receive()
            assert arrived is not None
            assert (arrived[IP].frag if family.version == 4 else arrived[Fragment].offset) == offset
        async with gateway.expect_drops(Drop.SELECTOR):
            send(6, identification=10)
        async with gateway.expect_drops(Drop.SELECTOR):
            send(6, other)
        # A first fragment that is refused lets none follow.
        async with gateway.expect_drops(Drop.SELECTOR):
            send(0, identification=11, port=6001)
        async with gateway.expect_drops(Drop.SELECTOR):
            send(6, identification=11)
        await asyncio.sleep(2.5)
        async with gateway.expect_drops(Drop.SELECTOR):
            send(18)

    async def test_into_a_tunnel(self, gateway: Gateway, family: Family) -> None:
        tunnel = new_tunnel(inner=family)
        protect = policy(
            LAN, fy.Action("protect", sa_id=tunnel.sa_out, inner_mtu=0), dst=host(family.inner),
            protocol=(17, 0xFF), sport=(6000, 6000),
        )  # fmt: skip
        await gateway.insert(tunnel.sad_out(), protect)

        def answer(offset: int, **fields: int) -> Packet:
            return gateway.on_lan(fragment(family, family.server, family.inner, offset, **fields))

        async with gateway.expect_drops(Drop.POLICY):
            gateway.lan.send(answer(6))
        for offset in (0, 6, 12):
            gateway.lan.send(answer(offset))
            sealed = gateway.wan.receive()
            assert sealed is not None
            inner = open_frame(tunnel, sealed)
            assert (inner.frag if family.version == 4 else inner[Fragment].offset) == offset
        async with gateway.expect_drops(Drop.POLICY):
            gateway.lan.send(answer(6, identification=10))
        async with gateway.expect_drops(Drop.POLICY):
            gateway.lan.send(answer(0, identification=11, port=6001))
        async with gateway.expect_drops(Drop.POLICY):
            gateway.lan.send(answer(6, identification=11))

    async def test_a_policy_without_ports_covers_each(self, gateway: Gateway, family: Family) -> None:
        tunnel = new_tunnel(inner=family)
        await gateway.insert(tunnel.entries())
        gateway.wan.send(gateway.seal(tunnel, fragment(family, family.inner, family.server, 6), 1))
        assert gateway.lan.receive() is not None


class TestRouting:
    @families
    async def test_no_route(self, gateway: Gateway, family: Family) -> None:
        await gateway.switch.delete([route(family.anywhere, WAN_HOP)])
        await gateway.insert(bypass(LAN, family.server, family.elsewhere))
        async with gateway.expect_drops(Drop.NO_ROUTE):
            gateway.lan.send(gateway.on_lan(build(ip_header(family, family.server, family.elsewhere), b"")))

    @families
    async def test_the_longest_prefix_wins(self, gateway: Gateway, family: Family) -> None:
        length = 32 if family.version == 4 else 128
        await gateway.insert(route(f"{family.server}/{length}", LAN2_HOP))
        tunnel = new_tunnel(inner=family)
        await gateway.insert(tunnel.entries())
        gateway.wan.send(gateway.seal(tunnel, to_server(family), 1))
        assert gateway.lan2.receive() is not None
        assert gateway.lan.receive(QUIET) is None

    @families
    async def test_no_next_hop(self, gateway: Gateway, family: Family) -> None:
        tunnel = new_tunnel(inner=family)
        await gateway.insert(tunnel.entries())
        length = 32 if family.version == 4 else 128
        await gateway.insert(route(f"{family.server}/{length}", 99))
        async with gateway.expect_drops(Drop.NO_NEXTHOP):
            gateway.wan.send(gateway.seal(tunnel, to_server(family), 1))
        group = fy.P4TableEntry(
            "route", match=fy.Match(dst=prefix(f"{family.server}/{length}")),
            action=fy.Action("via_group", group_id=5, members=0),
        )  # fmt: skip
        await gateway.switch.modify([group])
        async with gateway.expect_drops(Drop.NO_NEXTHOP):
            gateway.wan.send(gateway.seal(tunnel, to_server(family), 2))

    @families
    async def test_flows_share_a_group(self, gateway: Gateway, family: Family) -> None:
        """A flow keeps its way; many flows use both."""
        length = 32 if family.version == 4 else 128
        await gateway.insert(group_route(f"{family.server}/{length}", 5, [LAN_HOP, LAN2_HOP]))
        tunnel = new_tunnel(inner=family)
        await gateway.insert(tunnel.entries())
        ways: dict[int, set[str]] = {}
        sequence = 0
        for _ in range(3):
            for port in range(1, 33):
                sequence += 1
                flow = build(ip_header(family, family.inner, family.server), UDP(sport=port, dport=80))
                gateway.wan.send(gateway.seal(tunnel, flow, sequence))
        for name, wire in (("lan", gateway.lan), ("lan2", gateway.lan2)):
            for frame in wire.drain():
                ways.setdefault(frame[UDP].sport, set()).add(name)
        assert len(ways) == 32
        assert all(len(way) == 1 for way in ways.values())
        assert {next(iter(way)) for way in ways.values()} == {"lan", "lan2"}
        assert 6 <= sum(way == {"lan"} for way in ways.values()) <= 26

    @families
    async def test_opened_packets_stay_inside(self, gateway: Gateway, family: Family) -> None:
        tunnel = new_tunnel(inner=family)
        everywhere = fy.P4TableEntry(
            "spd_in", match=fy.Match(sa_id=tunnel.sa_in), priority=1, action=fy.Action("permit", inner_mtu=0)
        )
        await gateway.insert(tunnel.sad_in(), everywhere)
        async with gateway.expect_drops(Drop.LEAK):
            packet = build(ip_header(family, family.inner, family.elsewhere), b"")
            gateway.wan.send(gateway.seal(tunnel, packet, 1))
