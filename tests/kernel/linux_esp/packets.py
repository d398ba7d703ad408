"""IP and UDP headers, built and read. scapy could, but its import takes ten seconds in the machine."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

ESP = 50
UDP = 17
ICMP, ICMPV6 = 1, 58
EXPERIMENT = 253  # RFC 3692
_V4 = struct.Struct("!BBHHHBBH4s4s")
_V6 = struct.Struct("!IHBB16s16s")


@dataclass(frozen=True, slots=True)
class Ip:
    """A packet without options or extension headers. `tos` is DSCP and ECN."""

    src: str
    dst: str
    protocol: int
    payload: bytes
    ttl: int = 64
    tos: int = 0
    ident: int = 0
    dont_fragment: bool = True

    @property
    def version(self) -> int:
        return ip_address(self.dst).version

    def __bytes__(self) -> bytes:
        src, dst = ip_address(self.src).packed, ip_address(self.dst).packed
        if self.version == 6:
            first = 6 << 28 | self.tos << 20
            return _V6.pack(first, len(self.payload), self.protocol, self.ttl, src, dst) + self.payload
        flags = 0x4000 if self.dont_fragment else 0
        fields = (0x45, self.tos, 20 + len(self.payload), self.ident, flags, self.ttl, self.protocol)
        check = checksum(_V4.pack(*fields, 0, src, dst))
        return _V4.pack(*fields, check, src, dst) + self.payload

    @classmethod
    def parse(cls, packet: bytes) -> Ip:
        """Raises ValueError for a wrong length, checksum or version."""
        if packet[0] >> 4 == 6:
            first, length, protocol, ttl, src, dst = _V6.unpack_from(packet)
            if length != len(packet) - 40:
                raise ValueError(f"payload length {length} in {len(packet)} bytes")
            addresses = str(IPv6Address(src)), str(IPv6Address(dst))
            return cls(*addresses, protocol, packet[40:], ttl, first >> 20 & 0xFF)
        version, tos, length, ident, flags, ttl, protocol, _, src, dst = _V4.unpack_from(packet)
        if version != 0x45 or length != len(packet) or checksum(packet[:20]):
            raise ValueError(f"not an IPv4 packet: {packet[:20].hex()}")
        addresses = str(IPv4Address(src)), str(IPv4Address(dst))
        return cls(*addresses, protocol, packet[20:], ttl, tos, ident, bool(flags & 0x4000))


def checksum(data: bytes) -> int:
    """RFC 1071."""
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp(src: str, dst: str, sport: int, dport: int, payload: bytes) -> bytes:
    """A UDP datagram; over IPv4 without a checksum (RFC 3948 section 2.1), over IPv6 with one (RFC 8200)."""
    header = struct.pack("!HHHH", sport, dport, 8 + len(payload), 0)
    if ip_address(dst).version == 4:
        return header + payload
    pseudo = ip_address(src).packed + ip_address(dst).packed + struct.pack("!II", 8 + len(payload), UDP)
    check = checksum(pseudo + header + payload) or 0xFFFF
    return header[:6] + struct.pack("!H", check) + payload
