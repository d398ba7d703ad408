"""Is what a TCP connection carries really what its port promises? Follows the framing of TLS and of DNS, byte by byte.

segment ─► in order? ──yes──► record header, body, record header, body, …   a header that can't be: refused
              └── no: kept until the gap is filled
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

SYN = 0x02
HELD_SEGMENTS = 4096

Framing = Callable[[bytes], int]
"""The length of the body that a record header announces; -1 when it can't be such a header."""

TLS_HEADER, DNS_HEADER = 5, 6
TLS_CONTENT_TYPES = range(20, 25)
TLS_LARGEST = 2**14 + 2048  # RFC 5246 section 6.2.3; RFC 8446 allows less
DNS_OPCODES = (0, 4, 5)  # QUERY, NOTIFY, UPDATE


def tls_record(header: bytes) -> int:
    """RFC 8446 section 5.1: content type, legacy version 3.x, length."""
    kind, major, minor, length = struct.unpack("!BBBH", header)
    if kind in TLS_CONTENT_TYPES and major == 3 and minor <= 4 and length <= TLS_LARGEST:
        return length
    return -1


def dns_message(header: bytes) -> int:
    """RFC 1035 section 4.2.2: a length, then a message; the flags are looked at so that not any two bytes will do."""
    length, _, flags = struct.unpack("!HHH", header)
    if length >= 12 and flags >> 11 & 0xF in DNS_OPCODES:
        return length - 4
    return -1


@dataclass(slots=True)
class Stream:
    """A direction of a TCP connection."""

    framing: Framing
    header_size: int
    next_sequence: int | None = None
    held: dict[int, bytes] = field(default_factory=dict[int, bytes])
    header: bytearray = field(default_factory=bytearray)
    body_left: int = 0

    def take(self, sequence: int, flags: int, payload: bytes) -> bool:
        """Take one segment; False when it shows that the stream is not what it should be."""
        if flags & SYN:
            self._begin((sequence + 1) & 0xFFFFFFFF)
            return not payload
        if not payload:
            return True
        if self.next_sequence is None:  # seen from its middle on: a record must begin here
            self.next_sequence = sequence
        self.held[sequence] = payload
        while (ready := self._in_order()) is not None:
            if not self._follow(ready):
                self._begin(None)
                return False
        return len(self.held) <= HELD_SEGMENTS

    def _begin(self, sequence: int | None) -> None:
        self.next_sequence, self.body_left = sequence, 0
        self.header.clear()
        self.held.clear()

    def _in_order(self) -> bytes | None:
        assert self.next_sequence is not None
        for sequence, payload in list(self.held.items()):
            seen = (self.next_sequence - sequence) & 0xFFFFFFFF
            if seen >= 1 << 31:
                continue  # it comes after a gap
            del self.held[sequence]
            if seen < len(payload):
                self.next_sequence = (sequence + len(payload)) & 0xFFFFFFFF
                return payload[seen:]
        return None

    def _follow(self, payload: bytes) -> bool:
        at = 0
        while at < len(payload):
            if self.body_left:
                step = min(self.body_left, len(payload) - at)
                self.body_left -= step
                at += step
                continue
            step = min(self.header_size - len(self.header), len(payload) - at)
            self.header += payload[at : at + step]
            at += step
            if len(self.header) == self.header_size:
                self.body_left = self.framing(bytes(self.header))
                self.header.clear()
                if self.body_left < 0:
                    return False
        return True
