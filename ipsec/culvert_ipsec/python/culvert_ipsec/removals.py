"""Reports when another program removes blocking rules, routes or the device (rtnetlink(7))."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable

from culvert_ipsec.link_plan import MAIN_TABLE
from culvert_ipsec.netlink import Message, messages, open_socket
from culvert_ipsec.netlink_messages import rtnl

# linux/rtnetlink.h: links, IPv4 and IPv6 routes, IPv4 and IPv6 rules (RTNLGRP_*, as bits).
_GROUPS = 1 << 0 | 1 << 6 | 1 << 10 | 1 << 7 | 1 << 18
_RULES = frozenset({rtnl.RTM_DELRULE})
_ROUTES = frozenset({rtnl.RTM_DELROUTE})
_LINKS = frozenset({rtnl.RTM_NEWLINK, rtnl.RTM_DELLINK})
# The offsets of the sender's port, the table and the index (linux/netlink.h; struct rtmsg, ifinfomsg of linux/rtnetlink.h).
_PORT, _TABLE, _INDEX = (struct.Struct(it) for it in ("=12xI", "=16x4xB", "=16x4xi"))
# Our table, whose number exceeds a byte (RT_TABLE_COMPAT of linux/rtnetlink.h), and the main one.
_TABLES = ((252,), (MAIN_TABLE,))


class RemovalWatch:
    """`own_port` returns the netlink port of our own changes, which are ignored. Raises OSError."""

    def __init__(self, tun_name: str, own_port: Callable[[], int | None]) -> None:
        self._own_port = own_port
        self._index = socket.if_nametoindex(tun_name)
        self._socket = open_socket(socket.NETLINK_ROUTE, _GROUPS)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """A descriptor that is readable while something may have been removed."""
        return self._socket.fileno()

    def take(self) -> bool:
        """Whether one of our settings may have been removed since the last call. Never waits."""
        found = False
        while True:
            try:
                found |= any(self._counts(message) for message in messages(self._socket))
            except BlockingIOError:
                return found
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                # Some messages were lost, perhaps one of a removal.
                found = True

    def close(self) -> None:
        self._socket.close()

    def _counts(self, message: Message) -> bool:
        if _PORT.unpack_from(message.data) == (self._own_port(),):
            return False
        if message.kind in _LINKS:
            return _INDEX.unpack_from(message.data) == (self._index,)
        return message.kind in _RULES or (
            message.kind in _ROUTES and _TABLE.unpack_from(message.data) in _TABLES
        )
