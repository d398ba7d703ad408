"""ESP through the gateway, both ways: every suite, both versions inside and outside, UDP or not, VLAN tags, ESN."""

from __future__ import annotations

import finsy as fy
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from esp_peer import LEGACY, MODERN, Suite
from gateway_entries import FAMILIES, LAN_MAC, ROUTER_MAC, SERVER_MAC, V4, V6, WAN_MAC, Family, Site, ip
from gateway_rig import Gateway, esp_bytes, new_tunnel, open_frame, to_inner, to_server
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet

pytestmark = pytest.mark.slow

SIZES = (0, 1, 2, 3, 100, 1300)
each_inner = pytest.mark.parametrize("inner", FAMILIES, ids=lambda it: f"in{it.version}")
each_outer = pytest.mark.parametrize("outer", FAMILIES, ids=lambda it: f"over{it.version}")
each_carrier = pytest.mark.parametrize("peer_port", [40123, 0], ids=["nat-t", "esp"])


def hop(packet: Packet) -> Packet:
    """The packet behind one more router."""
    packet = packet.copy()
    if IP in packet:
        packet.ttl -= 1
        del packet.chksum
    else:
        packet.hlim -= 1
    return type(packet)(bytes(packet))


@each_outer
@each_inner
@each_carrier
async def test_both_ways(gateway: Gateway, outer: Family, inner: Family, peer_port: int) -> None:
    tunnel = new_tunnel(outer=outer, inner=inner, peer_port=peer_port)
    await gateway.insert(tunnel.entries())
    for sequence, size in enumerate(SIZES, start=1):
        request = to_server(inner, bytes(size))
        gateway.wan.send(gateway.seal(tunnel, request, sequence))
        arrived = gateway.lan.receive()
        assert arrived is not None, await gateway.drops()
        assert (arrived.src, arrived.dst) == (LAN_MAC, SERVER_MAC)
        assert bytes(arrived.payload) == bytes(hop(request))

        answer = to_inner(inner, bytes(size), tos=0x48)
        left = await gateway.seals(tunnel, answer)
        assert (left.src, left.dst) == (WAN_MAC, ROUTER_MAC)
        header = left[IP] if outer.version == 4 else left[IPv6]
        assert (header.src, header.dst) == (outer.gateway, outer.peer)
        assert (header.tos if outer.version == 4 else header.tc) == 0x48
        if outer.version == 4:
            assert (header.id, str(header.flags), header.ttl) == (0, "DF", 64)
            assert header.len == len(left) - 14
        else:
            assert (header.hlim, header.plen) == (64, len(left) - 54)
        if peer_port:
            assert (left[UDP].sport, left[UDP].dport, left[UDP].len) == (4500, peer_port, len(left[UDP]))
            if outer.version == 4:
                assert left[UDP].chksum == 0
            else:
                assert left[UDP].chksum == checksum_of(left)
        assert int.from_bytes(esp_bytes(left)[4:8]) == sequence
        assert len(esp_bytes(left)) % 4 == 0
        assert bytes(open_frame(tunnel, left)) == bytes(hop(answer))
    assert await gateway.drops() == {}


def checksum_of(frame: Packet) -> int:
    again = frame.copy()
    del again[UDP].chksum
    return Ether(bytes(again))[UDP].chksum


async def test_a_udp_checksum_of_zero_is_sent_as_ones(gateway: Gateway) -> None:
    """RFC 768. AES-GCM's IV is the sequence number, so the packet whose sum is 0 can be looked for beforehand."""
    tunnel = new_tunnel(outer=V6)
    cipher, salt = AESGCM(tunnel.key_out[:32]), tunnel.key_out[32:]
    inner = bytes(hop(to_inner(V4, bytes(4))))
    spi, first = tunnel.spi_out.to_bytes(4, "big"), (1).to_bytes(8, "big")
    length = 8 + 8 + len(inner) + 2 + 2 + 16 + 8
    words = [ip(V6.gateway), ip(V6.peer), 17, length, 4500, tunnel.peer_port, length]

    def sums_to_zero(payload: bytes) -> bool:
        plain = inner[:-4] + payload + bytes([1, 2, 2, 4])
        esp = spi + first[4:] + first + cipher.encrypt(salt + first, plain, spi + first)
        return (int.from_bytes(esp, "big") + sum(words)) % 0xFFFF == 0

    number = next(it for it in range(1 << 21) if sums_to_zero(it.to_bytes(4, "big")))
    await gateway.insert(tunnel.entries())
    answer = IP(bytes(to_inner(V4, bytes(4)))[:-4] + number.to_bytes(4, "big"))
    left = await gateway.seals(tunnel, answer)
    assert left[UDP].chksum == 0xFFFF


@pytest.mark.parametrize("suite", MODERN + LEGACY, ids=lambda it: it.name)
@pytest.mark.parametrize("esn", [True, False], ids=["esn", "no-esn"])
async def test_suites(gateway: Gateway, suite: Suite, esn: bool) -> None:
    tunnel = new_tunnel(suite=suite, esn=esn)
    await gateway.insert(tunnel.entries())
    for sequence in (1, 2, 70, 5):
        await gateway.opens(tunnel, sequence)
        left = await gateway.seals(tunnel)
        assert bytes(open_frame(tunnel, left)[UDP].payload) == b"answer"


@pytest.mark.parametrize("site", [Site(wan_vlan=100, lan_vlan=200), Site(lan_vlan=4094)], ids=repr)
@each_inner
async def test_tagged(gateway: Gateway, site: Site, inner: Family) -> None:
    tunnel = new_tunnel(inner=inner)
    await gateway.insert(tunnel.entries())
    arrived = await gateway.opens(tunnel, 1)
    assert arrived[Dot1Q].vlan == site.lan_vlan
    assert bytes(arrived[UDP].payload)[:7] == b"request"
    left = await gateway.seals(tunnel)
    assert (left[Dot1Q].vlan if site.wan_vlan else Dot1Q in left) == site.wan_vlan
    assert bytes(open_frame(tunnel, left)[UDP].payload) == b"answer"


async def test_a_priority_tag_is_no_vlan(gateway: Gateway) -> None:
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    frame = gateway.seal(tunnel, to_server(V4, b"request"), 1)
    tagged = Ether(src=frame.src, dst=frame.dst) / Dot1Q(vlan=0, prio=5) / frame.payload
    gateway.wan.send(tagged)
    arrived = gateway.lan.receive()
    assert arrived is not None
    assert Dot1Q not in arrived


async def test_link_padding_is_no_payload(gateway: Gateway) -> None:
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    gateway.wan.send(bytes(gateway.seal(tunnel, to_server(V4, b"x"), 1)) + bytes(9))
    arrived = gateway.lan.receive()
    assert arrived is not None
    assert len(arrived) == 14 + 20 + 8 + 1
    answer = to_inner(V4, b"y")
    gateway.lan.send(bytes(gateway.on_lan(answer)) + bytes(17))
    left = gateway.wan.receive()
    assert left is not None
    assert bytes(open_frame(tunnel, left)) == bytes(hop(answer))


async def test_entries_count_their_packets(gateway: Gateway) -> None:
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    await gateway.opens(tunnel, 1)
    await gateway.opens(tunnel, 2)
    await gateway.seals(tunnel)
    for table, packets in (("sad_in", 2), ("spd_in", 2), ("sad_out", 1), ("spd_out", 1)):
        found = await gateway.read(fy.P4TableEntry(table, counter_data=fy.P4CounterData()))
        assert sum(it.counter_data.packet_count for it in found) == packets, table


async def test_sa_goes_on_over_a_policy_change(gateway: Gateway) -> None:
    """The engine keeps sequence and window while an entry is modified with the same key."""
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    await gateway.opens(tunnel, 1)
    await gateway.seals(tunnel)
    moved = tunnel.but(peer_port=40999)
    await gateway.switch.modify([moved.sad_in(), moved.sad_out()])
    left = await gateway.seals(moved)
    assert (left[UDP].dport, int.from_bytes(esp_bytes(left)[4:8])) == (40999, 2)
