"""Makes the kernel drop most datagrams of a flooding socket, before they fill the receive buffer that all users share.

   a sender is too fast ──► 1 of 8 of its datagrams passes ──► still too fast: half as many in each window
                                                          └──► no longer:      twice as many, until all pass

The filter is a classic BPF program (linux/filter.h, socket(7) SO_ATTACH_FILTER). It runs in the sender's system call, so
a flood costs time in the sender, not in this process.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from contextlib import suppress

from culvert_client.config import SocketAddress

# Our tunables. Of a sender's datagrams, 1 of 2**level passes.
FIRST_LEVEL, LAST_LEVEL = 3, 10
SENDERS_AT_MOST = 64

# asm-generic/socket.h.
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
# linux/filter.h: struct sock_filter (code, jump if true, jump if false, operand), struct sock_fprog (length, address).
_INSTRUCTION, _PROGRAM = struct.Struct("=HBBI"), struct.Struct("@HP")
# BPF_LD | BPF_ABS with BPF_H and BPF_W, BPF_JMP | BPF_K with BPF_JEQ and BPF_JSET, BPF_RET | BPF_K.
_LOAD_HALF, _LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_ANY_BIT, _RETURN = 0x28, 0x20, 0x15, 0x45, 0x06
_PASS, _DROP = 0xFFFFFFFF, 0
# SKF_AD_OFF + SKF_AD_RANDOM, as 32 bits.
_RANDOM = 0xFFFFF038
# The filter's offset 0 is the UDP header (RFC 768). SKF_NET_OFF is the offset of the IP header, as 32 bits.
_SOURCE_PORT_AT = 0
_IP_HEADER_AT = 0xFFF00000
# RFC 791 section 3.1, RFC 8200 section 3.
_SOURCE_ADDRESS_AT = {socket.AF_INET: 12, socket.AF_INET6: 8}


class SenderFilter:
    """The filter of a UDP socket. Changes take effect with `apply`. If the kernel takes no filter, all datagrams pass."""

    def __init__(self, datagrams: socket.socket) -> None:
        self._datagrams = datagrams
        self._levels: dict[SocketAddress, int] = {}
        self._too_fast: set[SocketAddress] = set()
        self._has_changed = False

    @property
    def is_used(self) -> bool:
        return bool(self._levels)

    def too_fast(self, sender: SocketAddress) -> None:
        """Mark the sender; only the first call in a window counts."""
        if sender in self._too_fast or (sender not in self._levels and len(self._levels) >= SENDERS_AT_MOST):
            return
        self._too_fast.add(sender)
        before = self._levels.get(sender, FIRST_LEVEL - 1)
        self._levels[sender] = min(before + 1, LAST_LEVEL)
        self._has_changed = True

    def end_window(self) -> None:
        lowered = {it: level - (it not in self._too_fast) for it, level in self._levels.items()}
        self._has_changed |= lowered != self._levels
        self._levels = {it: level for it, level in lowered.items() if level}
        self._too_fast.clear()

    def apply(self) -> None:
        if not self._has_changed:
            return
        self._has_changed = False
        with suppress(OSError):
            if not self._levels:
                self._datagrams.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
                return
            parts = [_thin(self._datagrams.family, it, level) for it, level in self._levels.items()]
            program = b"".join([*parts, _instruction(_RETURN, _PASS)])
            code = ctypes.create_string_buffer(program, len(program))
            header = _PROGRAM.pack(len(program) // _INSTRUCTION.size, ctypes.addressof(code))
            self._datagrams.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)


def _thin(family: int, sender: SocketAddress, level: int) -> bytes:
    """Instructions that decide about this sender's datagrams; other datagrams continue after them."""
    address = socket.inet_pton(family, sender[0].partition("%")[0])
    start = _IP_HEADER_AT + _SOURCE_ADDRESS_AT[socket.AddressFamily(family)]
    words = [
        (_LOAD_WORD, start + at, int.from_bytes(address[at : at + 4])) for at in range(0, len(address), 4)
    ]
    verdict = [
        _instruction(_LOAD_WORD, _RANDOM),
        _instruction(_JUMP_IF_ANY_BIT, (1 << level) - 1, if_false=1),
        _instruction(_RETURN, _DROP),
        _instruction(_RETURN, _PASS),
    ]
    instructions = verdict
    for load, at, value in reversed([(_LOAD_HALF, _SOURCE_PORT_AT, sender[1]), *words]):
        is_equal = _instruction(_JUMP_IF_EQUAL, value, if_false=len(instructions))
        instructions = [_instruction(load, at), is_equal, *instructions]
    return b"".join(instructions)


def _instruction(code: int, operand: int, *, if_false: int = 0) -> bytes:
    """`if_false`: the number of instructions that a jump skips."""
    return _INSTRUCTION.pack(code, 0, if_false, operand)
