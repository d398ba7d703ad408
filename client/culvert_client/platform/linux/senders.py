"""The senders of queries: their users by the kernel, and the kernel's filter against floods."""

from __future__ import annotations

import socket

from culvert_client.platform.linux.sender_filter import SenderFilter
from culvert_client.platform.linux.socket_owner import SocketOwner

# asm-generic/socket.h: SO_RCVBUF beyond the system's limit; needs CAP_NET_ADMIN.
_SO_RCVBUFFORCE = 33


def socket_owner() -> SocketOwner:
    """As LocalSenders."""
    return SocketOwner()


def sender_filter(datagrams: socket.socket) -> SenderFilter:
    """As LocalSenders."""
    return SenderFilter(datagrams)


def grow_receive_buffer(datagrams: socket.socket, size: int) -> None:
    """As LocalSenders."""
    try:
        datagrams.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
    except PermissionError:
        datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
