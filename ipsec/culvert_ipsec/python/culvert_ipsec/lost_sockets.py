"""Ends sockets whose packets no tunnel carries, because their source is not the tunnel's address (sock_diag(7)).

```
 socket: own address ─► far address ─┬─ in no tunnel's prefix, or from that tunnel's address ──► goes on
                                     └─ from any other address: an earlier tunnel's, the network's ──► ends at once
```
Such a socket would wait for minutes. When it ends, its program opens another one, which gets the right address.
The kernel ends a TCP connection and disconnects a UDP socket with ECONNABORTED (SOCK_DESTROY, since Linux 4.5 and 4.9).
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from culvert_ipsec.desired import TunnelState
from culvert_ipsec.netlink import HEADER_LENGTH, NetlinkSocket

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# linux/sock_diag.h, linux/inet_diag.h, include/net/tcp_states.h
_NETLINK_SOCK_DIAG, _BY_FAMILY, _DESTROY = 4, 20, 21
_REQUEST = struct.Struct("=BBBxI")
# The fields of inet_diag_msg: family, state, timer, retransmits; then the identity.
_STATE = struct.Struct("=BBBB")
_IDENTITY = struct.Struct("=4s16s16sI8s")
# ESTABLISHED, SYN_SENT, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING; a connected UDP socket is the first.
_STATES = sum(1 << state for state in (1, 2, 4, 5, 8, 9, 11))
# Errors of a kernel that cannot list or end sockets.
_LACKING = (errno.EOPNOTSUPP, errno.ENOENT, errno.EINVAL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)


@dataclass(frozen=True, slots=True)
class Connected:
    """A connected TCP or UDP socket. `device` is the index of the device to which it is bound, 0 for none."""

    family: int
    protocol: int
    identity: bytes
    near: Address
    far: Address
    device: int


class Carried:
    """The tunnels' prefixes and inner addresses. The longest prefix that contains an address counts."""

    def __init__(self, tunnels: Iterable[TunnelState]) -> None:
        self._from: dict[Network, set[Address]] = {}
        for tunnel in tunnels:
            own = {
                it.version: it
                for it in map(ip_address, filter(None, (tunnel.inner_address, tunnel.inner_address6)))
            }
            for prefix in map(ip_network, tunnel.remote_prefixes):
                if prefix.version in own:
                    self._from.setdefault(prefix, set()).add(own[prefix.version])

    def loses(self, near: Address, far: Address) -> bool:
        """Whether a tunnel carries packets to `far`, but none from `near`."""
        prefix = max((it for it in self._from if far in it), key=lambda it: it.prefixlen, default=None)
        return prefix is not None and near not in self._from[prefix]


class Sockets(NetlinkSocket):
    """The sockets of this network namespace. Every method may raise OSError."""

    def __init__(self) -> None:
        super().__init__(_NETLINK_SOCK_DIAG)

    def list_connected(self) -> Iterator[Connected]:
        for family in (socket.AF_INET, socket.AF_INET6):
            for protocol in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
                every = _REQUEST.pack(family, protocol, 0, _STATES) + bytes(_IDENTITY.size)
                for data in self.dump(_BY_FAMILY, every):
                    yield _parse(protocol, data)

    def end(self, connected: Connected) -> None:
        request = _REQUEST.pack(connected.family, connected.protocol, 0, _STATES) + connected.identity
        self.request(_DESTROY, request)


def end_lost(tunnels: Iterable[TunnelState], device: str) -> int:
    """End the sockets that no tunnel carries, except those bound to another device; return their number. Raises OSError.

    If the kernel cannot end sockets, the number is 0, and they wait for their own time-outs.
    """
    carried, own, ended = Carried(tunnels), socket.if_nametoindex(device), 0
    try:
        with Sockets() as sockets:
            lost = [
                it
                for it in sockets.list_connected()
                if it.device in (0, own) and carried.loses(it.near, it.far)
            ]
            for it in lost:
                try:
                    sockets.end(it)
                    ended += 1
                except FileNotFoundError:
                    continue  # It has ended meanwhile.
    except OSError as error:
        if error.errno not in _LACKING:
            raise
    return ended


def _parse(protocol: int, data: bytes) -> Connected:
    family, *_ = _STATE.unpack_from(data, HEADER_LENGTH)
    at = HEADER_LENGTH + _STATE.size
    _, near, far, device, _ = _IDENTITY.unpack_from(data, at)
    identity = data[at : at + _IDENTITY.size]
    return Connected(family, protocol, identity, _address(family, near), _address(family, far), device)


def _address(family: int, raw: bytes) -> Address:
    if family == socket.AF_INET:
        return IPv4Address(raw[:4])
    address = IPv6Address(raw)
    # A dual-stack socket has IPv4-mapped addresses (RFC 4291 section 2.5.5.2).
    return address.ipv4_mapped or address
