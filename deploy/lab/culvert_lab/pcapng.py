"""The part of pcapng (draft-ietf-opsawg-pcapng) that the captures need: Ethernet frames with interface names.

Scapy 2.8 writes times in microseconds, and an interface's name only for frames that it has parsed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

SECTION, INTERFACE, ENHANCED_PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER_MAGIC = 0x1A2B3C4D
LINKTYPE_ETHERNET = 1
OPTION_END, OPTION_IF_NAME, OPTION_IF_TSRESOL = 0, 2, 9
NANOSECONDS = 9


class Packet(NamedTuple):
    """A captured frame. `at_ns` is nanoseconds since the epoch."""

    interface: str
    at_ns: int
    frame: bytes


class Writer:
    """Writes one section; an interface is described when its first frame comes."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._interfaces: dict[str, int] = {}
        self._block(SECTION, struct.pack("=IHHq", BYTE_ORDER_MAGIC, 1, 0, -1))

    def write(self, packet: Packet) -> None:
        number = self._interfaces.get(packet.interface)
        if number is None:
            number = self._interfaces[packet.interface] = len(self._interfaces)
            options = _option(OPTION_IF_NAME, packet.interface.encode()) + _option(
                OPTION_IF_TSRESOL, bytes([NANOSECONDS])
            )
            self._block(
                INTERFACE, struct.pack("=HHI", LINKTYPE_ETHERNET, 0, 0) + options + _option(OPTION_END, b"")
            )
        size = len(packet.frame)
        head = struct.pack("=IIIII", number, packet.at_ns >> 32, packet.at_ns & 0xFFFFFFFF, size, size)
        self._block(ENHANCED_PACKET, head + _pad(packet.frame))

    def _block(self, kind: int, body: bytes) -> None:
        length = struct.pack("=I", len(body) + 12)
        self._out.write(struct.pack("=I", kind) + length + body + length)


def read(source: BinaryIO) -> Iterator[Packet]:
    """The frames that a `Writer` on this machine wrote; a block that was cut off at the end is left out."""
    names: list[str] = []
    while len(head := source.read(8)) == 8:
        kind, length = struct.unpack("=II", head)
        rest = source.read(length - 8)
        if len(rest) < length - 8:
            return
        body = rest[:-4]
        if kind == INTERFACE:
            size = struct.unpack_from("=HH", body, 8)[1]
            names.append(body[12 : 12 + size].decode())
        elif kind == ENHANCED_PACKET:
            number, high, low, size, _ = struct.unpack_from("=IIIII", body)
            yield Packet(names[number], high << 32 | low, body[20 : 20 + size])


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("=HH", code, len(value)) + _pad(value)


def _pad(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)
