"""The gateway's own addresses: ARP, Neighbor Discovery and ping, tagged or not. Nothing else is offered."""

from __future__ import annotations

from socket import AF_INET6, inet_ntop, inet_pton
from typing import Any

import pytest
from gateway_entries import FAMILIES, LAN_MAC, ROUTER_MAC, V4, V6, WAN_MAC, Family, Site, own_address
from gateway_rig import Drop, Gateway, ip_header, with_protocol
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    ICMPv6NDOptUnknown,
    IPv6,
)
from scapy.layers.inet6 import IPv6ExtHdrFragment as Fragment
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils6 import in6_getnsma, in6_getnsmac  # type: ignore[attr-defined]

# No SA takes part.
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("gateway", ["engine"], indirect=True)]

UNSPECIFIED = "0.0.0.0"  # noqa: S104
BROADCAST = "ff:ff:ff:ff:ff:ff"
wires = pytest.mark.parametrize("site", [Site(), Site(wan_vlan=100)], ids=["untagged", "tagged"])
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda it: f"v{it.version}")


def ask(**changes: Any) -> Packet:
    return ARP(**{"op": 1, "hwsrc": ROUTER_MAC, "psrc": V4.router, "pdst": V4.gateway, **changes})


def solicitation(target: str = V6.gateway, source: str = V6.router, **changes: Any) -> Packet:
    """A solicitation to the solicited-node group, with the sender's address as an option unless it has none."""
    fields = {"dst": group(target), "hlim": 255, "code": 0, "option": True, **changes}
    packet = IPv6(src=source, dst=fields["dst"], hlim=fields["hlim"]) / ICMPv6ND_NS(
        tgt=target, code=fields["code"]
    )
    return packet / ICMPv6NDOptSrcLLAddr(lladdr=ROUTER_MAC) if fields["option"] else packet


def group(target: str) -> str:
    return inet_ntop(AF_INET6, in6_getnsma(inet_pton(AF_INET6, target)))


def group_mac(target: str) -> str:
    return in6_getnsmac(in6_getnsma(inet_pton(AF_INET6, target)))


def answer(gateway: Gateway, frame: Packet) -> Packet:
    gateway.wan.send(frame)
    answered = gateway.wan.receive()
    assert answered is not None
    assert (answered.src, answered.dst) == (WAN_MAC, ROUTER_MAC)
    assert (answered[Dot1Q].vlan if Dot1Q in answered else 0) == gateway.site.wan_vlan
    return answered


@wires
class TestArp:
    @pytest.mark.parametrize("destination", [BROADCAST, WAN_MAC])
    async def test_is_answered(self, gateway: Gateway, destination: str) -> None:
        answered = answer(gateway, gateway.on_wan(ask(), dst=destination))[ARP]
        assert (answered.op, answered.hwsrc, answered.psrc) == (2, WAN_MAC, V4.gateway)
        assert (answered.hwdst, answered.pdst) == (ROUTER_MAC, V4.router)

    async def test_probes_are_answered(self, gateway: Gateway) -> None:
        """RFC 5227: from 0.0.0.0."""
        assert answer(gateway, gateway.on_wan(ask(psrc=UNSPECIFIED), dst=BROADCAST))[ARP].psrc == V4.gateway

    async def test_others_are_not(self, gateway: Gateway) -> None:
        for other in (ask(pdst=V4.router), ask(pdst=V4.lan), ask(op=2)):
            async with gateway.expect_drops(Drop.ARP_NOT_OURS):
                gateway.wan.send(gateway.on_wan(other, dst=BROADCAST))
        for bad in (ask(hwtype=6), ask(ptype=0x86DD), ask(hwlen=8), ask(plen=16), ask(hwsrc=BROADCAST)):
            async with gateway.expect_drops(Drop.MALFORMED):
                frame = bytes(gateway.on_wan(bad, dst=BROADCAST))
                gateway.wan.send(frame.ljust(60, b"\0"))


@wires
class TestNeighborDiscovery:
    @pytest.mark.parametrize("unicast", [False, True], ids=["group", "unicast"])
    async def test_is_answered(self, gateway: Gateway, unicast: bool) -> None:
        packet = solicitation(**({"dst": V6.gateway} if unicast else {}))
        destination = WAN_MAC if unicast else group_mac(V6.gateway)
        answered = answer(gateway, gateway.on_wan(packet, dst=destination))
        assert (answered[IPv6].src, answered[IPv6].dst, answered[IPv6].hlim) == (V6.gateway, V6.router, 255)
        advert = answered[ICMPv6ND_NA]
        assert (advert.R, advert.S, advert.O, advert.tgt, advert.code) == (1, 1, 1, V6.gateway, 0)
        assert answered[ICMPv6NDOptDstLLAddr].lladdr == WAN_MAC
        assert ICMPv6NDOptSrcLLAddr not in answered
        assert answered[IPv6].plen == 32 == len(answered[IPv6].payload)
        assert advert.cksum == right_checksum(answered)

    async def test_link_local_asks_and_is_asked(self, gateway: Gateway) -> None:
        mine = "fe80::ff:fe00:101"
        await gateway.insert(own_address(1, mine))
        packet = solicitation(mine, source="fe80::ff:fe00:102")
        answered = answer(gateway, gateway.on_wan(packet, dst=group_mac(mine)))
        assert (answered[IPv6].src, answered[IPv6].dst) == (mine, "fe80::ff:fe00:102")

    @pytest.mark.parametrize("nonce", [False, True], ids=["plain", "enhanced"])
    async def test_duplicate_detection_is_told_to_all(self, gateway: Gateway, nonce: bool) -> None:
        """RFC 4862 section 5.4.3; with RFC 7527's nonce, as Linux sends it."""
        packet = solicitation(source="::", option=False)
        if nonce:
            packet = packet / ICMPv6NDOptUnknown(type=14, len=1, data=b"nonce!")
        gateway.wan.send(gateway.on_wan(packet, dst=group_mac(V6.gateway)))
        answered = gateway.wan.receive()
        assert answered is not None
        assert (answered.dst, answered[IPv6].dst) == ("33:33:00:00:00:01", "ff02::1")
        advert = answered[ICMPv6ND_NA]
        assert (advert.R, advert.S, advert.O, advert.tgt) == (1, 0, 1, V6.gateway)
        assert advert.cksum == right_checksum(answered)

    async def test_others_are_not(self, gateway: Gateway) -> None:
        for target in (V6.router, V6.lan):
            async with gateway.expect_drops(Drop.ARP_NOT_OURS):
                gateway.wan.send(gateway.on_wan(solicitation(target), dst=group_mac(target)))

    async def test_bad_ones_are_not(self, gateway: Gateway) -> None:
        """RFC 4861 section 7.1.1."""
        wrong_sum = solicitation()
        wrong_sum[ICMPv6ND_NS].cksum = 1
        empty_option = solicitation(option=False) / ICMPv6NDOptUnknown(type=14, len=0, data=b"nonce!")
        short = IPv6(src=V6.router, dst=group(V6.gateway), hlim=255, nh=58) / Raw(
            bytes(solicitation(option=False))[40:60]
        )
        bad = [
            solicitation(hlim=254),
            solicitation(code=1),
            solicitation("ff02::1", dst=group(V6.gateway)),
            solicitation(source="::"),
            solicitation(source="::", dst=V6.gateway, option=False),
            wrong_sum,
            empty_option,
        ]
        for packet in bad:
            async with gateway.expect_drops(Drop.MALFORMED):
                gateway.wan.send(gateway.on_wan(packet, dst=group_mac(V6.gateway)))
        async with gateway.expect_drops(Drop.MALFORMED):
            gateway.wan.send(gateway.on_wan(short))

    async def test_impossible_senders_are_not(self, gateway: Gateway) -> None:
        for source in ("::1", "ff02::1", "::ffff:198.51.100.1"):
            async with gateway.expect_drops(Drop.MARTIAN):
                packet = solicitation(source=source)
                gateway.wan.send(gateway.on_wan(packet, dst=group_mac(V6.gateway)))


def right_checksum(frame: Packet) -> int:
    again = frame.copy()
    layer = next(it for it in (ICMP, ICMPv6ND_NA, ICMPv6EchoReply) if it in again)
    field = "chksum" if layer is ICMP else "cksum"
    again[layer].delfieldval(field)
    return Ether(bytes(again))[layer].getfieldval(field)


def ping(family: Family, size: int, destination: str) -> Packet:
    request = ICMP(id=7, seq=9) if family.version == 4 else ICMPv6EchoRequest(id=7, seq=9)
    return ip_header(family, family.router, destination) / request / Raw(bytes(range(size)))


@wires
@families
class TestPing:
    @pytest.mark.parametrize("size", [0, 1, 56, 200])
    async def test_is_answered(self, gateway: Gateway, family: Family, size: int) -> None:
        answered = answer(gateway, gateway.on_wan(ping(family, size, family.gateway)))
        reply = answered[ICMP] if family.version == 4 else answered[ICMPv6EchoReply]
        assert (reply.type, reply.code, reply.id, reply.seq) == (0 if family.version == 4 else 129, 0, 7, 9)
        carried = reply.payload if family.version == 4 else reply.data
        assert bytes(carried) == bytes(range(size))
        header = answered[IP] if family.version == 4 else answered[IPv6]
        assert (header.src, header.dst) == (family.gateway, family.router)
        assert right_checksum(answered) == (reply.chksum if family.version == 4 else reply.cksum)

    async def test_link_padding_is_not_returned(self, gateway: Gateway, family: Family) -> None:
        frame = gateway.on_wan(ping(family, 1, family.gateway))
        gateway.wan.send(bytes(frame) + bytes(17))
        answered = gateway.wan.receive()
        assert answered is not None
        assert len(answered) == len(frame)

    async def test_every_sum_comes_out_right(self, gateway: Gateway, family: Family) -> None:
        """The checksum is adjusted, not made: around its carries too."""
        for number in (0, 0xF7FE, 0xF7FF, 0xF800, 0xFEFF, 0xFF00, 0xFFFE, 0xFFFF):
            packet = ping(family, 0, family.gateway)
            packet.lastlayer().id = number
            answered = answer(gateway, gateway.on_wan(packet))
            reply = answered[ICMP] if family.version == 4 else answered[ICMPv6EchoReply]
            found = reply.chksum if family.version == 4 else reply.cksum
            assert right_checksum(answered) in (found, found ^ 0xFFFF if found in (0, 0xFFFF) else found)

    async def test_fragments_are_not_answered(self, gateway: Gateway, family: Family) -> None:
        packet = ping(family, 100, family.gateway)
        if family.version == 4:
            packet.flags = "MF"
        else:
            packet = IPv6(src=family.router, dst=family.gateway) / Fragment(m=1) / packet[ICMPv6EchoRequest]
        async with gateway.expect_drops(Drop.FRAGMENT):
            gateway.wan.send(gateway.on_wan(packet))


@families
async def test_the_lan_address_answers_too(gateway: Gateway, family: Family) -> None:
    request = ICMP() if family.version == 4 else ICMPv6EchoRequest()
    gateway.lan.send(gateway.on_lan(ip_header(family, family.server, family.lan) / request))
    answered = gateway.lan.receive()
    assert answered is not None
    assert answered.src == LAN_MAC


@families
async def test_nothing_else_is_offered(gateway: Gateway, family: Family) -> None:
    bare = ip_header(family, family.router, family.gateway)
    for payload in (UDP(dport=53), UDP(dport=500), TCP(dport=22), TCP(dport=4500), Raw(b"protocol")):
        async with gateway.expect_drops(Drop.NOT_OFFERED):
            packet = bare / payload
            if isinstance(payload, Raw):
                with_protocol(packet, 89)
            gateway.wan.send(gateway.on_wan(packet))
    wrong = ICMP(type=13) if family.version == 4 else ICMPv6EchoReply()
    async with gateway.expect_drops(Drop.NOT_OFFERED):
        gateway.wan.send(gateway.on_wan(bare / wrong))


@families
async def test_esp_is_for_the_wan(gateway: Gateway, family: Family) -> None:
    inside = ip_header(family, family.server, family.lan)
    for payload in (UDP(sport=4500, dport=4500) / Raw(bytes(60)), Raw(bytes(60))):
        packet = inside / payload
        if isinstance(payload, Raw):
            with_protocol(packet, 50)
        async with gateway.expect_drops(Drop.NOT_OFFERED):
            gateway.lan.send(gateway.on_lan(packet))
