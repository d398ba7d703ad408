"""ICMP echo: builds requests and parses replies (RFC 792, RFC 4443 section 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_HEADER = struct.Struct("!BBHHH")
HEADER_BYTES = _HEADER.size
_REQUEST = {4: 8, 6: 128}
_REPLY = {4: 0, 6: 129}


@dataclass(frozen=True, slots=True)
class EchoReply:
    ident: int
    sequence: int
    payload: bytes


def request(version: int, ident: int, sequence: int, payload: bytes) -> bytes:
    """An echo request. For IPv6 without a checksum: the kernel, which knows the source address, fills it in."""
    unsummed = _HEADER.pack(_REQUEST[version], 0, 0, ident, sequence) + payload
    if version == 6:
        return unsummed
    return unsummed[:2] + _checksum(unsummed).to_bytes(2) + unsummed[4:]


def reply(version: int, packet: bytes) -> EchoReply | None:
    """The echo reply in a raw socket's datagram: with the IP header for IPv4, without for IPv6. None for anything else."""
    start = (packet[0] & 0xF) * 4 if version == 4 and packet else 0
    if len(packet) < start + _HEADER.size:
        return None
    kind, code, _, ident, sequence = _HEADER.unpack_from(packet, start)
    if (kind, code) != (_REPLY[version], 0):
        return None
    return EchoReply(ident, sequence, packet[start + _HEADER.size :])


def _checksum(octets: bytes) -> int:
    """RFC 1071."""
    padded = octets + bytes(len(octets) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
