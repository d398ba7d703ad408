"""One gateway with one tunnel: the entries of p4/gateway.p4, and a peer that speaks ESP by itself (AES-GCM-256 or NULL)."""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address

import finsy as fy
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

KEK = bytes(range(32))
GATEWAY, PEER, INNER, SERVER = "198.51.100.2", "203.0.113.10", "10.99.0.5", "10.20.0.10"
WAN_MAC, ROUTER_MAC = "02:00:00:00:01:01", "02:00:00:00:01:02"
LAN_MAC, SERVER_MAC = "02:00:00:00:02:01", "02:00:00:00:02:10"
SPI_IN, SPI_OUT = 0x1001, 0x2002
AES_GCM_256, NULL_HMAC_SHA256 = 1, 129
WHOLE = 2**128 - 1


@dataclass(frozen=True, slots=True)
class Sa:
    """One direction, ESN, ESP-in-UDP."""

    spi: int
    suite: int
    key: bytes

    def seal(self, sequence: int, inner: bytes) -> bytes:
        padding = -(len(inner) + 2) % 4
        clear = inner + bytes(range(1, padding + 1)) + bytes([padding, 4])
        head = struct.pack(">II", self.spi, sequence)
        if self.suite == NULL_HMAC_SHA256:
            return head + clear + self._icv(head + clear)
        iv = struct.pack(">Q", sequence)
        return head + iv + AESGCM(self.key[:32]).encrypt(self.key[32:] + iv, clear, head[:4] + iv)

    def open(self, packet: bytes) -> tuple[int, bytes]:
        """The sequence number and the inner packet. Raises AssertionError, InvalidTag."""
        spi, sequence = struct.unpack(">II", packet[:8])
        assert spi == self.spi
        if self.suite == NULL_HMAC_SHA256:
            assert packet[-16:] == self._icv(packet[:-16])
            clear = packet[8:-16]
        else:
            # RFC 4106 section 5: SPI and the extended sequence number are authenticated.
            associated = struct.pack(">IQ", spi, sequence)
            clear = AESGCM(self.key[:32]).decrypt(self.key[32:] + packet[8:16], packet[16:], associated)
        assert clear[-1] == 4
        return sequence, clear[: -2 - clear[-2]]

    def _icv(self, authenticated: bytes) -> bytes:
        # RFC 4303 section 2.2.1: the high half of the sequence number is authenticated behind the packet.
        return hmac.digest(self.key, authenticated + bytes(4), hashlib.sha256)[:16]


def fresh(spi: int, suite: int = AES_GCM_256) -> Sa:
    return Sa(spi, suite, os.urandom(36 if suite == AES_GCM_256 else 32))


def wrapped(key: bytes) -> bytes:
    """RFC 5649 under the gateway's key-encryption key."""
    return aes_key_wrap_with_padding(KEK, key)


def ip(address: str) -> int:
    return 0xFFFF << 32 | int(IPv4Address(address))


def static() -> list[fy.P4TableEntry]:
    """Ports, routes, next hops."""
    wan = fy.Action("set_wan", interface_id=1, mac=WAN_MAC)
    lan = fy.Action("set_lan", interface_id=2, mac=LAN_MAC)
    to_wan = fy.Action("set_nexthop", role=1, port=1, vlan=0, src_mac=WAN_MAC, dst_mac=ROUTER_MAC, mtu=1500)
    to_lan = fy.Action("set_nexthop", role=2, port=2, vlan=0, src_mac=LAN_MAC, dst_mac=SERVER_MAC, mtu=1500)
    return [
        fy.P4TableEntry("port_role", match=fy.Match(port=1, vlan=0), action=wan),
        fy.P4TableEntry("port_role", match=fy.Match(port=2, vlan=0), action=lan),
        fy.P4TableEntry(
            "own_address", match=fy.Match(interface_id=1, address=ip(GATEWAY)), action=fy.Action("ours")
        ),
        fy.P4TableEntry("route", match=fy.Match(dst="::ffff:0:0/97"), action=fy.Action("via", nexthop_id=2)),
        fy.P4TableEntry(
            "route", match=fy.Match(dst="::ffff:128.0.0.0/97"), action=fy.Action("via", nexthop_id=1)
        ),
        fy.P4TableEntry("nexthop", match=fy.Match(id=1), action=to_wan),
        fy.P4TableEntry("nexthop", match=fy.Match(id=2), action=to_lan),
    ]


def tunnel(inbound: Sa, outbound: Sa) -> list[fy.P4TableEntry]:
    limits = {f"{kind}_{what}": 0 for kind in ("soft", "hard") for what in ("packets", "bytes", "seconds")}
    shared = {"slot": 0, "esn": 1, "endpoint": 0, "tag": 0, **limits}
    keys = {sa: int.from_bytes(wrapped(sa.key)) for sa in (inbound, outbound)}
    opened = fy.Action(
        "open", sa_id=7, suite=inbound.suite, wrapped_key=keys[inbound], replay_window=1024, **shared
    )
    outer = {"src": ip(GATEWAY), "dst": ip(PEER), "sport": 4500, "dport": 40123}
    sealed = fy.Action(
        "seal", suite=outbound.suite, wrapped_key=keys[outbound], spi=outbound.spi, **outer, **shared
    )
    there = fy.Match(sa_id=7, src=(ip(INNER), WHOLE), dst=(ip(SERVER), WHOLE))
    back = fy.Match(role=2, src=(ip(SERVER), WHOLE), dst=(ip(INNER), WHOLE))
    return [
        fy.P4TableEntry("sad_in", match=fy.Match(dst=ip(GATEWAY), spi=inbound.spi), action=opened),
        fy.P4TableEntry("spd_in", match=there, priority=10, action=fy.Action("permit", inner_mtu=0)),
        fy.P4TableEntry("sad_out", match=fy.Match(sa_id=8), action=sealed),
        fy.P4TableEntry(
            "spd_out", match=back, priority=10, action=fy.Action("protect", sa_id=8, inner_mtu=0)
        ),
    ]


def clear(size: int = 100) -> bytes:
    """A frame on the LAN, from the server to the peer's inner address; `size` bytes behind UDP."""
    frame = Ether(src=SERVER_MAC, dst=LAN_MAC) / IP(src=SERVER, dst=INNER, ttl=9)
    return bytes(frame / UDP(sport=80, dport=1024) / Raw(b"x" * size))


def sealed(sa: Sa, sequence: int, size: int = 100) -> bytes:
    """A frame on the WAN: the peer's, for the server."""
    inner = IP(src=INNER, dst=SERVER, ttl=9) / UDP(sport=1024, dport=80) / Raw(b"y" * size)
    outer = (
        Ether(src=ROUTER_MAC, dst=WAN_MAC)
        / IP(src=PEER, dst=GATEWAY)
        / UDP(sport=40123, dport=4500, chksum=0)
    )
    return bytes(outer / Raw(sa.seal(sequence, bytes(inner))))


def esp_of(frame: bytes) -> bytes:
    """What is behind Ethernet, IPv4 and UDP."""
    assert frame[12:14] == b"\x08\x00"
    return frame[42:]
