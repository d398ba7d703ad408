"""Time exceeded and packet too big: who gets them, what they quote, and about what there are none."""

from __future__ import annotations

import time
from typing import Any

import finsy as fy
import pytest
from gateway_entries import FAMILIES, LAN, LAN_MAC, SERVER_MAC, V4, Family, Site, bypass
from gateway_rig import QUIET, Drop, Gateway, build, ip_header, new_tunnel, open_frame, to_inner, to_server
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
)  # fmt: skip
from scapy.layers.inet6 import IPv6ExtHdrFragment as Fragment
from scapy.layers.l2 import Dot1Q
from scapy.packet import Packet, Raw

pytestmark = pytest.mark.slow
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda it: f"v{it.version}")


def check_error(packet: Packet, family: Family, kind: str, mtu: int, quoted: bytes) -> None:
    """`packet` is the error's IP header and what follows; `quoted` is the whole packet that it is about."""
    if family.version == 4:
        assert (packet.proto, packet.ttl, packet.tos) == (1, 64, 0xC0)
        error = packet[ICMP]
        expected = {"time": (11, 0), "big": (3, 4)}[kind]
        most = 576 - 28
        summed = ICMP(bytes(error))
        del summed.chksum
        assert error.chksum == ICMP(bytes(summed)).chksum
        if kind == "big":
            assert error.nexthopmtu == mtu
    else:
        assert (packet.nh, packet.hlim, packet.tc) == (58, 64, 0xC0)
        error = packet[ICMPv6TimeExceeded if kind == "time" else ICMPv6PacketTooBig]
        expected = {"time": (3, 0), "big": (2, 0)}[kind]
        most = 1280 - 48
        again = packet.copy()
        del again[type(error)].cksum
        assert error.cksum == IPv6(bytes(again))[type(error)].cksum
        if kind == "big":
            assert error.mtu == mtu
    assert (error.type, error.code) == expected
    length = packet.len if family.version == 4 else packet.plen + 40
    quote = bytes(packet)[28 if family.version == 4 else 48 : length]
    assert quote == quoted[:most]


def header_of(frame: Packet) -> Packet:
    return frame[IP] if IP in frame else frame[IPv6]


@families
class TestAboutPacketsFromTheLan:
    @pytest.mark.parametrize("site", [Site(), Site(lan_vlan=200)], ids=["untagged", "tagged"])
    @pytest.mark.parametrize("ttl", [0, 1])
    @pytest.mark.parametrize("size", [10, 1300])
    async def test_time_exceeded(self, gateway: Gateway, family: Family, ttl: int, size: int) -> None:
        await gateway.insert(new_tunnel(inner=family).entries())
        packet = to_inner(family, bytes(range(256)) * 5 + bytes(20) if size > 99 else b"x" * 10, ttl=ttl)
        gateway.lan.send(bytes(gateway.on_lan(packet)) + (bytes(7) if size < 99 else b""))
        error = gateway.lan.receive()
        assert error is not None, await gateway.drops()
        assert (error.src, error.dst) == (LAN_MAC, SERVER_MAC)
        assert (error[Dot1Q].vlan if Dot1Q in error else 0) == gateway.site.lan_vlan
        assert (header_of(error).src, header_of(error).dst) == (family.lan, family.server)
        check_error(header_of(error), family, "time", 0, bytes(packet))
        assert await gateway.drops() == {Drop.TTL: 1}
        assert gateway.wan.receive(QUIET) is None

    async def test_too_big_for_the_tunnel(self, gateway: Gateway, family: Family) -> None:
        mtu = 1400
        await gateway.insert(new_tunnel(inner=family, inner_mtu=mtu).entries())
        fits = to_inner(family, bytes(mtu - (28 if family.version == 4 else 48)))
        assert len(fits) == mtu
        gateway.lan.send(gateway.on_lan(fits))
        assert gateway.wan.receive() is not None
        packet = to_inner(family, bytes(mtu - 27 if family.version == 4 else mtu - 47))
        gateway.lan.send(gateway.on_lan(packet))
        error = gateway.lan.receive()
        assert error is not None
        check_error(header_of(error), family, "big", mtu, bytes(packet))
        assert await gateway.drops() == {Drop.TOO_BIG: 1}

    @pytest.mark.parametrize("site", [Site(wan_mtu=1000)], ids=["mtu"])
    async def test_bypassed_packets_meet_the_next_hops_mtu(self, gateway: Gateway, family: Family) -> None:
        await gateway.insert(bypass(LAN, family.server, family.elsewhere))
        packet = build(ip_header(family, family.server, family.elsewhere), bytes(1000))
        gateway.lan.send(gateway.on_lan(packet))
        error = gateway.lan.receive()
        assert error is not None
        check_error(header_of(error), family, "big", 1000, bytes(packet))


@families
class TestAboutPacketsFromTheTunnel:
    async def test_time_exceeded_is_sealed(self, gateway: Gateway, family: Family) -> None:
        tunnel = new_tunnel(inner=family)
        await gateway.insert(tunnel.entries())
        packet = to_server(family, b"traceroute", ttl=1)
        gateway.wan.send(gateway.seal(tunnel, packet, 1))
        left = gateway.wan.receive()
        assert left is not None, await gateway.drops()
        error = open_frame(tunnel, left)
        assert (error.src, error.dst) == (family.lan, family.inner)
        check_error(error, family, "time", 0, bytes(packet))
        assert header_of(left).getfieldval("tos" if IP in left else "tc") == 0xC0
        assert await gateway.drops() == {Drop.TTL: 1}

    @pytest.mark.parametrize("site", [Site(mtu=1280)], ids=["mtu"])
    async def test_too_big_for_the_lan_is_sealed(self, gateway: Gateway, family: Family) -> None:
        tunnel = new_tunnel(inner=family)
        await gateway.insert(tunnel.entries())
        packet = to_server(family, bytes(1300))
        gateway.wan.send(gateway.seal(tunnel, packet, 1))
        left = gateway.wan.receive()
        assert left is not None
        check_error(open_frame(tunnel, left), family, "big", 1280, bytes(packet))

    async def test_without_a_policy_it_is_discarded(self, gateway: Gateway, family: Family) -> None:
        tunnel = new_tunnel(inner=family)
        await gateway.insert(tunnel.sad_in(), tunnel.spd_in(), tunnel.sad_out(), tunnel.spd_out())
        async with gateway.expect_drops(Drop.TTL, Drop.POLICY):
            gateway.wan.send(gateway.seal(tunnel, to_server(family, b"", ttl=1), 1))
        await gateway.insert(bypass(LAN, family.lan, family.inner))
        async with gateway.expect_drops(Drop.TTL, Drop.POLICY):
            gateway.wan.send(gateway.seal(tunnel, to_server(family, b"", ttl=1), 2))


def unanswerable(family: Family) -> list[Packet]:
    """Packets to the tunnel's inner address, with a spent TTL."""

    def spent(**fields: Any) -> Packet:
        return ip_header(family, family.server, family.inner, ttl=1, **fields)

    if family.version == 4:
        later = build(spent(frag=10), b"later")
        return [spent() / ICMP(type=kind) / bytes(28) for kind in (3, 4, 5, 11, 12)] + [later]
    later = spent() / Fragment(offset=10, nh=17) / Raw(bytes(40))
    errors: list[Any] = [ICMPv6DestUnreach(), ICMPv6TimeExceeded(), ICMPv6PacketTooBig()]
    redirect = ICMPv6EchoRequest(type=137)
    return [spent() / error / IPv6() for error in [*errors, redirect]] + [later]


@families
async def test_there_is_none_about(gateway: Gateway, family: Family) -> None:
    """RFC 1812 section 4.3.2.7, RFC 4443 section 2.4 (e)."""
    await gateway.insert(new_tunnel(inner=family).entries())
    for packet in unanswerable(family):
        async with gateway.expect_drops(Drop.TTL):
            gateway.lan.send(gateway.on_lan(packet))
    header = ip_header(family, family.server, family.inner, ttl=1)
    if family.version == 4:
        header.flags = "MF"
    else:
        header = header / Fragment(m=1, nh=17)
    gateway.lan.send(gateway.on_lan(header / UDP(len=100) / Raw(bytes(40))))
    assert gateway.lan.receive() is not None, "a first fragment may be answered"


@families
async def test_they_are_limited(gateway: Gateway, family: Family) -> None:
    await gateway.insert(new_tunnel(inner=family).entries())
    began = time.monotonic()
    for _ in range(100):
        gateway.lan.send(gateway.on_lan(to_inner(family, b"", ttl=1)))
    errors = len(gateway.lan.drain())
    # Ten at once, then ten a second.
    assert 10 <= errors <= 11 + 10 * (time.monotonic() - began)
    assert (await gateway.drops())[Drop.TTL] == 100


async def test_none_without_a_source(gateway: Gateway) -> None:
    sources = await gateway.read(fy.P4TableEntry("icmp_source"))
    await gateway.switch.delete(sources)
    await gateway.insert(new_tunnel().entries())
    async with gateway.expect_drops(Drop.TTL):
        gateway.lan.send(gateway.on_lan(to_inner(V4, b"", ttl=1)))


@families
async def test_a_forged_one_is_not_believed(gateway: Gateway, family: Family) -> None:
    """After a forged "packet too big" for the tunnel's packets, the largest packet still passes (RFC 4301 section 8.2)."""
    mtu = 1400
    tunnel = new_tunnel(inner=family, outer=family, inner_mtu=mtu)
    await gateway.insert(tunnel.entries())
    largest = to_inner(family, bytes(mtu - (28 if family.version == 4 else 48)))
    sent = header_of(await gateway.seals(tunnel, largest))
    error = ICMP(type=3, code=4, nexthopmtu=600) if family.version == 4 else ICMPv6PacketTooBig(mtu=1280)
    forged = ip_header(family, family.router, family.gateway) / error / Raw(bytes(sent)[:500])
    async with gateway.expect_drops(Drop.NOT_OFFERED):
        gateway.wan.send(gateway.on_wan(forged))
    assert len(open_frame(tunnel, await gateway.seals(tunnel, largest))) == mtu
