"""A netlink socket (netlink(7), RFC 3549): a request and its answers, and the kernel's notifications.

The messages are pyroute2's classes. Its sockets are not used: each runs its own event loop, so that a request takes many
times as long as in the kernel, and a user may be waiting for it.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple, Self

from culvert_ipsec.netlink_messages import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
)

# linux/netlink.h: length with the header, type, flags, sequence number, port.
_HEADER = struct.Struct("=IHHII")
HEADER_LENGTH = _HEADER.size
_CODE = struct.Struct("=i")  # of NLMSG_ERROR and NLMSG_DONE: 0, or a negative errno
_RECEIVE = 1 << 16
_KERNEL = 0
# The number of repeated dumps when the state changes while the kernel lists it.
_TRIES = 10


class Message(NamedTuple):
    """`data` is the whole message, with its header."""

    kind: int
    flags: int
    sequence: int
    data: bytes


class NetlinkSocket:
    """A socket for one thread at a time. Every method may raise OSError with the kernel's reason."""

    def __init__(self, protocol: int) -> None:
        self._socket = open_socket(protocol)
        self._numbers = itertools.count(1)

    def request(self, kind: int, payload: bytes, flags: int = 0) -> list[bytes]:
        """The messages of the answer, each with its header, without the acknowledgement. `payload` has no header."""
        *told, _ = self._exchange(kind, payload, flags | NLM_F_ACK)
        return [message.data for message in told]

    def dump(self, kind: int, payload: bytes) -> list[bytes]:
        """A consistent list of all objects of a kind."""
        for _ in range(_TRIES):
            found = self._exchange(kind, payload, NLM_F_DUMP)
            if not any(message.flags & NLM_F_DUMP_INTR for message in found):
                return [message.data for message in found[:-1]]
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    @property
    def port(self) -> int:
        """The sender's port in the kernel's notifications of changes that this socket makes."""
        return self._socket.getsockname()[0]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, kind: int, payload: bytes, flags: int) -> list[Message]:
        """The messages of the answer; the last one is NLMSG_ERROR or NLMSG_DONE."""
        sequence = next(self._numbers)
        header = _HEADER.pack(HEADER_LENGTH + len(payload), kind, NLM_F_REQUEST | flags, sequence, 0)
        self._socket.sendto(header + payload, (_KERNEL, 0))
        answers: list[Message] = []
        while not answers or answers[-1].kind not in (NLMSG_ERROR, NLMSG_DONE):
            answers += (message for message in messages(self._socket) if message.sequence == sequence)
        (code,) = _CODE.unpack_from(answers[-1].data, HEADER_LENGTH)
        if code:
            raise OSError(-code, os.strerror(-code))
        return answers


def open_socket(protocol: int, groups: int = 0) -> socket.socket:
    """Raises OSError."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    try:
        made.bind((0, groups))
    except OSError:
        made.close()
        raise
    return made


def messages(of: socket.socket) -> Iterator[Message]:
    """The messages of the next datagram; none unless the kernel sent it. Raises OSError, BlockingIOError."""
    datagram, _, flags, (sender, _) = of.recvmsg(_RECEIVE)
    if flags & socket.MSG_TRUNC:
        raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
    while sender == _KERNEL and len(datagram) >= HEADER_LENGTH:
        length, kind, its_flags, sequence, _ = _HEADER.unpack_from(datagram)
        yield Message(kind, its_flags, sequence, datagram[:length])
        datagram = datagram[(length + 3) & ~3 :]
