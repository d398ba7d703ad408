"""Packets that come to the TUN device and find no tunnel, as a socket beside the device sees them.

```
 program ─► route: device culvert0 ─┬─► ESP, or dropped
                                    └─► filter: leaves, and no tunnel has its destination ─► here: the destination
```
The filter runs in the kernel (socket(7), SO_ATTACH_FILTER), so what a tunnel carries costs no wake-up.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Self

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# linux/if_ether.h, linux/if_packet.h, asm-generic/socket.h
_ALL_PROTOCOLS = 3
_OUTGOING = 4
_SO_ATTACH_FILTER = 26
# linux/filter.h
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD_WORD, _LOAD_BYTE, _AND, _SHIFT_RIGHT = 0x20, 0x30, 0x54, 0x74
_JUMP, _JUMP_IF_EQUAL, _RETURN = 0x05, 0x15, 0x06
_PACKET_TYPE = 0xFFFFF004
# Where destinations stand: RFC 791, RFC 8200.
_DESTINATION = {4: (16, 4), 6: (24, 16)}
# Our tunables, in bytes and packets: an IPv6 header; memory for a burst; the filter that every kernel takes.
_HEADER = 40
_MEMORY = 1 << 15
_AT_ONCE = 256
_LONGEST = 2000

Instruction = tuple[int, int, int, int]
"""Code, instructions to skip when true, when false, operand."""
_TAKE: Instruction = (_RETURN, 0, 0, _HEADER)
_LEAVE: Instruction = (_RETURN, 0, 0, 0)


class PacketTrap:
    """Needs CAP_NET_RAW. Raises OSError."""

    def __init__(self, device: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _MEMORY)
            # Before the socket hears of a packet at all.
            self.leave_to_tunnels(())
            self._socket.bind((device, _ALL_PROTOCOLS))
        except OSError:
            self._socket.close()
            raise

    def leave_to_tunnels(self, prefixes: Iterable[Network]) -> None:
        """What goes to these is no longer told."""
        program = list(filter_of(prefixes))
        code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*it) for it in program))
        attached = struct.pack("@HP", len(program), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)

    def fileno(self) -> int:
        """Readable while `take` has something to tell."""
        return self._socket.fileno()

    def take(self) -> frozenset[Address]:
        """Where packets wanted to go. Never waits; of a flood a part is told."""
        found: set[Address] = set()
        for _ in range(_AT_ONCE):
            try:
                address = destination(self._socket.recv(_HEADER))
            except OSError:
                break  # Nothing waits, or the device is down.
            if address is not None:
                found.add(address)
        return frozenset(found)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def destination(packet: bytes) -> Address | None:
    """Of an IP packet; None of other bytes."""
    version = packet[0] >> 4 if packet else 0
    start, length = _DESTINATION.get(version, (0, 0))
    raw = packet[start : start + length]
    if not length or len(raw) < length:
        return None
    return IPv4Address(raw) if version == 4 else IPv6Address(raw)


def filter_of(prefixes: Iterable[Network]) -> Iterator[Instruction]:
    """A program that takes the headers of packets that leave, and leaves those to the prefixes.

    Prefixes that find no room in it are told all the same.
    """
    checks: dict[int, list[Instruction]] = {4: [], 6: []}
    for prefix in prefixes:
        check = list(_leave_to(prefix))
        if sum(map(len, checks.values())) + len(check) < _LONGEST:
            checks[prefix.version] += check
    yield _LOAD_BYTE, 0, 0, _PACKET_TYPE
    yield _JUMP_IF_EQUAL, 1, 0, _OUTGOING
    yield _LEAVE
    yield _LOAD_BYTE, 0, 0, 0
    yield _SHIFT_RIGHT, 0, 0, 4
    for version, its in checks.items():
        yield _JUMP_IF_EQUAL, 1, 0, version
        yield _JUMP, 0, 0, len(its) + 1
        yield from its
        yield _TAKE
    yield _LEAVE


def _leave_to(prefix: Network) -> Iterator[Instruction]:
    start, length = _DESTINATION[prefix.version]
    network, mask = prefix.network_address.packed, prefix.netmask.packed
    words = [at for at in range(0, length, 4) if any(mask[at : at + 4])]
    for left, at in zip(reversed(range(len(words))), words, strict=True):
        yield _LOAD_WORD, 0, 0, start + at
        yield _AND, 0, 0, int.from_bytes(mask[at : at + 4])
        # Past the rest of this prefix.
        yield _JUMP_IF_EQUAL, 0, 3 * left + 1, int.from_bytes(network[at : at + 4])
    yield _LEAVE
