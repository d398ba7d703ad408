"""MSS clamping, both ways (RFC 9293 section 3.7.1): wherever the option is, and never a drop for what cannot be parsed."""

from __future__ import annotations

import pytest
from gateway_entries import FAMILIES, V4, Family, Site
from gateway_rig import Gateway, build, ip_header, new_tunnel, open_frame, with_protocol
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

pytestmark = pytest.mark.slow
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda it: f"v{it.version}")

MTU = 1438
MSS = bytes([2, 4, 0x05, 0xB4])  # 1460
TIMESTAMPS = bytes([8, 10, *range(8)])
NOP, END = b"\x01", b"\x00"
CLAMPED = {
    "first": MSS,
    "linux": MSS + b"\x04\x02" + TIMESTAMPS + NOP + b"\x03\x03\x07",
    "one nop before": NOP + MSS,
    "two nops before": NOP * 2 + MSS,
    "seven nops before": NOP * 7 + MSS,
    "eight nops before": NOP * 8 + MSS,
    "timestamps before": TIMESTAMPS + MSS,
    "odd option before": b"\x03\x03\x07" + MSS,
    "all kinds before": NOP + b"\x03\x03\x07" + b"\x04\x02" + TIMESTAMPS + NOP + MSS + END,
    "long option before": bytes([30, 36, *range(34)]) + MSS,
    "md5 before": bytes([19, 18, *range(16)]) + NOP + MSS,
    "unknown option of no content": bytes([200, 2]) + MSS,
}
LEFT = {
    "none": b"",
    "end before": END + MSS,
    "length 0 before": bytes([3, 0]) + MSS,
    "length 1 before": bytes([3, 1]) + MSS,
    "length beyond the header": bytes([3, 40]) + MSS,
    "mss of length 3": bytes([2, 3, 5]) + MSS,
    "cut short": NOP * 2 + MSS[:2],
    "nine before": NOP * 9 + MSS,
}


def syn(family: Family, options: bytes, flags: int = 2, to_server: bool = True) -> Packet:
    """A SYN with these very bytes as options, and a right checksum."""
    options += END * (-len(options) % 4)
    header = ip_header(
        family, *((family.inner, family.server) if to_server else (family.server, family.inner))
    )
    bare = bytearray(
        bytes(TCP(sport=40000, dport=443, flags=flags, dataofs=5 + len(options) // 4, chksum=0))
    )[:20]
    return with_checksum(header, bytes(bare) + options)


def with_checksum(header: Packet, segment: bytes) -> Packet:
    packet = type(header)(bytes(with_protocol(header, 6) / segment))
    del packet[TCP].chksum
    value = type(packet)(bytes(packet))[TCP].chksum
    return type(header)(bytes(header / (segment[:16] + value.to_bytes(2, "big") + segment[18:])))


def segment(packet: Packet) -> bytes:
    return bytes(packet)[20 if IP in packet else 40 :]


def expected(packet: Packet, mtu: int, options: bytes) -> bytes:
    """The segment with its first true MSS option cut, and the checksum made anew."""
    clamp = mtu - (40 if IP in packet else 60)
    cut = segment(packet)[:20] + segment(packet)[20:].replace(MSS, MSS[:2] + clamp.to_bytes(2, "big"), 1)
    header = packet.copy()
    header.remove_payload()
    return segment(with_checksum(header, cut))


@families
@pytest.mark.parametrize("place", CLAMPED)
async def test_from_the_server(gateway: Gateway, family: Family, place: str) -> None:
    tunnel = new_tunnel(inner=family, inner_mtu=MTU)
    await gateway.insert(tunnel.entries())
    for flags in (0x02, 0x12):
        packet = syn(family, CLAMPED[place], flags, to_server=False)
        inner = open_frame(tunnel, await gateway.seals(tunnel, packet))
        assert segment(inner) == expected(packet, MTU, CLAMPED[place])


@families
@pytest.mark.parametrize("place", CLAMPED)
async def test_from_the_peer(gateway: Gateway, family: Family, place: str) -> None:
    tunnel = new_tunnel(inner=family, inner_mtu=MTU)
    await gateway.insert(tunnel.entries())
    packet = syn(family, CLAMPED[place])
    gateway.wan.send(gateway.seal(tunnel, packet, 1))
    arrived = gateway.lan.receive()
    assert arrived is not None
    assert segment(arrived[IP] if IP in arrived else arrived[IPv6]) == expected(packet, MTU, CLAMPED[place])


@families
async def test_what_cannot_be_parsed_passes(gateway: Gateway, family: Family) -> None:
    tunnel = new_tunnel(inner=family, inner_mtu=MTU)
    await gateway.insert(tunnel.entries())
    for name, options in LEFT.items():
        packet = syn(family, options, to_server=False)
        assert segment(open_frame(tunnel, await gateway.seals(tunnel, packet))) == segment(packet), name
    lying = bytearray(segment(syn(family, MSS, to_server=False)))
    lying[12] = 15 << 4
    packet = with_checksum(ip_header(family, family.server, family.inner), bytes(lying))
    assert segment(open_frame(tunnel, await gateway.seals(tunnel, packet))) == segment(packet), "data offset"


@families
async def test_what_fits_or_is_no_syn_passes(gateway: Gateway, family: Family) -> None:
    tunnel = new_tunnel(inner=family, inner_mtu=MTU)
    await gateway.insert(tunnel.entries())
    for options, flags in ((bytes([2, 4, 2, 0]), 2), (MSS, 0x10), (MSS, 0x04)):
        packet = syn(family, options, flags, to_server=False)
        assert segment(open_frame(tunnel, await gateway.seals(tunnel, packet))) == segment(packet)
    open_ended = tunnel.but(inner_mtu=0)
    await gateway.switch.modify([open_ended.spd_out()])
    packet = syn(family, MSS, to_server=False)
    assert segment(open_frame(tunnel, await gateway.seals(tunnel, packet))) == segment(packet)


@families
@pytest.mark.parametrize("site", [Site(mtu=1300)], ids=["mtu"])
async def test_the_next_hops_mtu_clamps_too(gateway: Gateway, family: Family, site: Site) -> None:
    tunnel = new_tunnel(inner=family, inner_mtu=MTU)
    await gateway.insert(tunnel.entries())
    packet = syn(family, MSS)
    gateway.wan.send(gateway.seal(tunnel, packet, 1))
    arrived = gateway.lan.receive()
    assert arrived is not None
    assert segment(arrived[IP] if IP in arrived else arrived[IPv6]) == expected(packet, 1300, MSS)


async def test_segments_pass_built_as_they_came(gateway: Gateway) -> None:
    tunnel = new_tunnel(inner_mtu=MTU)
    await gateway.insert(tunnel.entries())
    packet = build(
        ip_header(V4, V4.server, V4.inner), TCP(sport=1, dport=2, options=[("MSS", 9000)]) / bytes(900)
    )
    inner = open_frame(tunnel, await gateway.seals(tunnel, packet))
    assert dict(inner[TCP].options)["MSS"] == MTU - 40
    assert inner[TCP].payload == packet[TCP].payload
