"""ESP that is not opened: each cause on both versions, with UDP and without."""

from __future__ import annotations

import os
from dataclasses import replace

import finsy as fy
import pytest
from esp_peer import Association
from gateway_entries import FAMILIES, LAN, V4, Family, policy
from gateway_rig import (
    QUIET,
    Drop,
    Gateway,
    ip_header,
    new_tunnel,
    open_frame,
    seal,
    to_inner,
    to_server,
    with_protocol,
)
from scapy.layers.inet import IP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import IPv6ExtHdrFragment as Fragment
from scapy.packet import Packet, Raw

pytestmark = pytest.mark.slow
outers = pytest.mark.parametrize("outer", FAMILIES, ids=lambda it: f"over{it.version}")
carriers = pytest.mark.parametrize("peer_port", [40123, 0], ids=["nat-t", "esp"])


@outers
@carriers
async def test_causes(gateway: Gateway, outer: Family, peer_port: int) -> None:
    tunnel = new_tunnel(outer=outer, peer_port=peer_port)
    await gateway.insert(tunnel.entries())
    request = to_server(V4, b"request")
    await gateway.opens(tunnel, 5)
    good = seal(tunnel, request, 6)
    forged = [bytearray(good) for _ in range(3)]
    forged[0][-1] ^= 1  # ICV
    forged[1][20] ^= 1  # ciphertext
    forged[2][7] ^= 0x10  # sequence number
    cases = [
        (seal(tunnel, request, 5), Drop.REPLAY),
        *[(bytes(it), Drop.ICV) for it in forged],
        (seal(tunnel.but(key_in=os.urandom(36)), request, 8), Drop.ICV),
        (seal(tunnel.but(spi_in=0x9999), request, 9), Drop.BAD_SPI),
        (good[:-1], Drop.ESP_MALFORMED),
        (good[:32], Drop.ESP_MALFORMED),
        (good[:8], Drop.ESP_MALFORMED),
    ]
    for esp, cause in cases:
        async with gateway.expect_drops(cause):
            gateway.wan.send(gateway.esp(tunnel, esp))
    gateway.wan.send(gateway.esp(tunnel, good))
    assert gateway.lan.receive() is not None, "no bad packet has used up its number"


@outers
async def test_dummies_are_dropped_silently(gateway: Gateway, outer: Family) -> None:
    """RFC 4303 section 2.6: next header 59."""
    tunnel = new_tunnel(outer=outer)
    await gateway.insert(tunnel.entries())
    association = Association(tunnel.suite, tunnel.key_in, tunnel.spi_in, tunnel.esn)
    async with gateway.expect_drops(Drop.DUMMY):
        gateway.wan.send(gateway.esp(tunnel, association.seal_bytes(bytes(64), 59, 1)))


@outers
async def test_what_is_no_esp_on_port_4500(gateway: Gateway, outer: Family) -> None:
    """RFC 3948 sections 2.2 and 2.3."""
    tunnel = new_tunnel(outer=outer)
    await gateway.insert(tunnel.entries())
    for payload in (b"\xff", b"", bytes(4), bytes(4) + b"IKE" * 20, b"\0\0\x10", b"\xff" * 3):
        async with gateway.expect_drops(Drop.NOT_ESP):
            gateway.wan.send(gateway.esp(tunnel, payload))
    async with gateway.expect_drops(Drop.NOT_ESP):
        gateway.wan.send(gateway.esp(tunnel, bytes(60), port=0))


@outers
@carriers
async def test_fragments(gateway: Gateway, outer: Family, peer_port: int) -> None:
    """RFC 4303 section 3.4.1."""
    tunnel = new_tunnel(outer=outer, peer_port=peer_port)
    await gateway.insert(tunnel.entries())
    esp = seal(tunnel, to_server(V4, bytes(100)), 1)
    carried = bytes(UDP(sport=peer_port, dport=4500) / Raw(esp)) if peer_port else esp
    number = 17 if peer_port else 50
    for piece, offset, more in ((carried[:80], 0, 1), (carried[80:], 10, 0)):
        if outer.version == 4:
            packet = IP(src=outer.peer, dst=outer.gateway, flags="MF" if more else 0, frag=offset)
            packet = with_protocol(packet, number) / Raw(piece)
        else:
            packet = ip_header(outer, outer.peer, outer.gateway)
            packet = packet / Fragment(nh=number, offset=offset, m=more) / Raw(piece)
        async with gateway.expect_drops(Drop.FRAGMENT):
            gateway.wan.send(gateway.on_wan(packet))


@outers
async def test_lying_lengths(gateway: Gateway, outer: Family) -> None:
    tunnel = new_tunnel(outer=outer)
    await gateway.insert(tunnel.entries())
    frame = gateway.seal(tunnel, to_server(V4, b"request"), 1)
    for length in (0, 7, len(frame[UDP]) + 1, 65535):
        lying = frame.copy()
        lying[UDP].len = length
        async with gateway.expect_drops(Drop.MALFORMED):
            gateway.wan.send(lying)
    field = "len" if outer.version == 4 else "plen"
    right = frame.__class__(bytes(frame)).payload.getfieldval(field)
    for length in (right + 1, 65535, *((0, 19, 27) if outer.version == 4 else (0, 7))):
        lying = frame.copy()
        lying.payload.setfieldval(field, length)
        if outer.version == 6 and length == 0:
            continue
        async with gateway.expect_drops(Drop.MALFORMED):
            gateway.wan.send(lying)
    gateway.wan.send(frame)
    assert gateway.lan.receive() is not None


async def test_ipv4_headers(gateway: Gateway) -> None:
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())

    def bent(**fields: int) -> Packet:
        frame = gateway.seal(tunnel, to_server(V4), 1)
        for name, value in fields.items():
            frame[IP].setfieldval(name, value)
        return frame

    for fields in ({"version": 5}, {"version": 6}, {"ihl": 4}, {"ihl": 0}, {"chksum": 1}):
        async with gateway.expect_drops(Drop.MALFORMED):
            gateway.wan.send(bent(**fields))
    with_options = IP(src=V4.peer, dst=V4.gateway, options=[IPOption_Router_Alert()])
    async with gateway.expect_drops(Drop.IP_OPTIONS):
        gateway.wan.send(gateway.on_wan(with_options / UDP(sport=1, dport=4500) / Raw(bytes(60))))


async def test_inner_packets_that_are_none(gateway: Gateway) -> None:
    """Authentic, and yet malformed."""
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    checksum = to_server(V4, b"x")
    checksum.chksum ^= 1
    header = to_server(V4, b"x")
    header.ihl = 4
    for sequence, inner in enumerate((checksum, header), start=1):
        async with gateway.expect_drops(Drop.ESP_MALFORMED):
            gateway.wan.send(gateway.seal(tunnel, inner, sequence))
    options = IP(src=V4.inner, dst=V4.server, options=[IPOption_Router_Alert()]) / UDP() / b"x"
    async with gateway.expect_drops(Drop.IP_OPTIONS):
        gateway.wan.send(gateway.seal(tunnel, options, 3))
    short = IP(src=V4.inner, dst=V4.server, proto=17) / Raw(b"four")
    async with gateway.expect_drops(Drop.ESP_MALFORMED):
        gateway.wan.send(gateway.seal(tunnel, short, 4))


@pytest.mark.parametrize("suite", [0, 4, 128, 133, 255])
async def test_keys_and_suites_that_are_none(gateway: Gateway, suite: int) -> None:
    tunnel = new_tunnel()
    frame = gateway.seal(tunnel, to_server(V4), 1)
    unknown = tunnel.but(suite=replace(tunnel.suite, number=suite))
    await gateway.insert(unknown.entries())
    async with gateway.expect_drops(Drop.KEY):
        gateway.wan.send(frame)
    async with gateway.expect_drops(Drop.KEY):
        gateway.lan.send(gateway.on_lan(to_inner(V4)))
    other_kek = tunnel.but(kek=bytes(32))
    await gateway.switch.modify([other_kek.sad_in(), other_kek.sad_out()])
    async with gateway.expect_drops(Drop.KEY):
        gateway.wan.send(frame)
    await gateway.switch.modify([tunnel.sad_in(), tunnel.sad_out()])
    gateway.wan.send(frame)
    assert gateway.lan.receive() is not None


async def test_clear_packets_to_the_inside_are_dropped(gateway: Gateway) -> None:
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    async with gateway.expect_drops(Drop.POLICY):
        gateway.wan.send(gateway.on_wan(to_server(V4)))
    await gateway.insert(policy(LAN, fy.Action("bypass"), priority=1))
    async with gateway.expect_drops(Drop.POLICY):
        gateway.wan.send(gateway.on_wan(to_server(V4)))
    assert gateway.lan.receive(QUIET) is None
    assert open_frame(tunnel, await gateway.seals(tunnel))
