"""Finds the user whose socket a query came from, by the kernel (sock_diag(7)). A lookup takes some microseconds.

Internet sockets have no SO_PEERCRED. Instead the kernel looks the other socket up by the addresses and ports of both
ends, in a hash table.
"""

from __future__ import annotations

import itertools
import socket
import struct

from culvert_client.config import SocketAddress

# linux/netlink.h: length, type, flags, sequence, port.
_HEADER = struct.Struct("=IHHII")
_REQUEST, _ERROR = 1, 2
# linux/sock_diag.h, linux/inet_diag.h. Ports and addresses in inet_diag_sockid have network byte order.
_NETLINK_SOCK_DIAG, _BY_FAMILY = 4, 20
_INET_DIAG_REQUEST = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_INTERFACE_AND_COOKIE = struct.Struct("=III")
_ANY_STATE, _NO_COOKIE = 0xFFFFFFFF, 0xFFFFFFFF
# Bytes of inet_diag_msg before the uid: family to retransmits (4), socket's identity (48), expires, rqueue, wqueue (12).
_UID_AT = _HEADER.size + 64
_UID = struct.Struct("=I")
_LONGEST_ANSWER = 8192


class SocketOwner:
    def __init__(self) -> None:
        """Raises OSError if the kernel has no sock_diag."""
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        self._netlink.setblocking(False)
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self._netlink.close()

    def uid_of(self, family: int, kind: int, asker: SocketAddress, own: SocketAddress) -> int | None:
        """The uid of the socket at `asker` that sends to `own`. None if there is no such socket on this computer.

        `kind` is SOCK_DGRAM or SOCK_STREAM.
        """
        # The kernel looks a UDP socket up as the receiver of a packet: source first, then destination.
        protocol, one, other = (
            (socket.IPPROTO_UDP, own, asker)
            if kind == socket.SOCK_DGRAM
            else (socket.IPPROTO_TCP, asker, own)
        )
        number = next(self._numbers) & 0xFFFFFFFF
        body = (
            _INET_DIAG_REQUEST.pack(family, protocol, 0, _ANY_STATE)
            + _PORTS.pack(one[1], other[1])
            + _pack(family, one[0])
            + _pack(family, other[0])
            + _INTERFACE_AND_COOKIE.pack(_interface(own), _NO_COOKIE, _NO_COOKIE)
        )
        try:
            self._netlink.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, number, 0) + body)
            while True:
                answer = self._netlink.recv(_LONGEST_ANSWER)
                _, kind_of_answer, _, answered, _ = _HEADER.unpack_from(answer)
                if answered == number:
                    break
        except OSError:
            # The query is still answered, for an unknown user.
            return None
        if kind_of_answer == _ERROR or len(answer) < _UID_AT + _UID.size:
            return None
        (uid,) = _UID.unpack_from(answer, _UID_AT)
        return uid


def _interface(address: SocketAddress) -> int:
    return address[3] if len(address) > 2 else 0


def _pack(family: int, address: str) -> bytes:
    # A link-local address has its interface behind a "%".
    return socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0")
