"""Reads DNS packets on every interface through packet sockets (packet(7)).

A filter in the kernel passes UDP from or to port 53 alone. It is a classic BPF program (linux/filter.h, SO_ATTACH_FILTER).
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from culvert_client.config import Endpoint
from culvert_client.core.client_events import Event
from culvert_client.core.dns_watch import DNS_PORT, DnsWatch
from culvert_client.platform.linux.system_dns.choice import upstreams

# Our tunables: seconds between checks of the interfaces, bytes of a DNS message with its headers, messages per read.
LOOK_AGAIN = 2.0
LONGEST = 4096
AT_ONCE = 64

# linux/if_ether.h, linux/if_packet.h, asm-generic/socket.h.
_ALL_PROTOCOLS = 3
_OUTGOING = 4
_SO_ATTACH_FILTER = 26
# linux/filter.h: struct sock_filter (code, instructions to skip when true and when false, operand), struct sock_fprog.
_INSTRUCTION, _PROGRAM = struct.Struct("=HBBI"), struct.Struct("@HP")
_LOAD_BYTE, _LOAD_HALF, _LOAD_HALF_AT_X, _X_IS, _X_IS_IPV4_HEADER = 0x30, 0x28, 0x48, 0x01, 0xB1
_SHIFT_RIGHT, _JUMP, _JUMP_IF_EQUAL, _JUMP_IF_ANY_BIT, _RETURN = 0x74, 0x05, 0x15, 0x45, 0x06
_UDP = 17
# Begins at the IP header (RFC 791, RFC 8200), as a SOCK_DGRAM packet socket has it on every kind of interface.
_FILTER = (
    (_LOAD_BYTE, 0, 0, 0),
    (_SHIFT_RIGHT, 0, 0, 4),
    (_JUMP_IF_EQUAL, 0, 3, 6),
    # IPv6: the protocol of the first header, and the length of IPv6's own.
    (_LOAD_BYTE, 0, 0, 6),
    (_X_IS, 0, 0, 40),
    (_JUMP, 0, 0, 5),
    # IPv4: no fragment but the first; the protocol and the header's length.
    (_JUMP_IF_EQUAL, 0, 10, 4),
    (_LOAD_HALF, 0, 0, 6),
    (_JUMP_IF_ANY_BIT, 8, 0, 0x1FFF),
    (_X_IS_IPV4_HEADER, 0, 0, 0),
    (_LOAD_BYTE, 0, 0, 9),
    # The ports (RFC 768).
    (_JUMP_IF_EQUAL, 0, 5, _UDP),
    (_LOAD_HALF_AT_X, 0, 0, 0),
    (_JUMP_IF_EQUAL, 2, 0, DNS_PORT),
    (_LOAD_HALF_AT_X, 0, 0, 2),
    (_JUMP_IF_EQUAL, 0, 1, DNS_PORT),
    (_RETURN, 0, 0, LONGEST),
    (_RETURN, 0, 0, 0),
)

log = logging.getLogger("culvert_client.watch.sniffer")


def sniffer(post: Callable[[Event], None], use: Callable[[tuple[Endpoint, ...]], None] | None) -> Sniffer:
    """As DnsSniffers."""
    return Sniffer(post, use)


class Sniffer:
    """Conforms to QuerySource. `use`: as of DnsSniffers."""

    def __init__(
        self, post: Callable[[Event], None], use: Callable[[tuple[Endpoint, ...]], None] | None
    ) -> None:
        self._post, self._use = post, use
        self._watch = DnsWatch()
        self._sockets: dict[str, socket.socket] = {}
        self._looking: asyncio.Task[None] | None = None

    async def open(self, _: Endpoint) -> None:
        """Raises OSError without CAP_NET_RAW."""
        self._look()
        self._looking = asyncio.create_task(self._look_forever())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for name in list(self._sockets):
            self._forget(name)

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            # An interface may disappear while it is opened.
            with suppress(OSError):
                self._look()

    def _look(self) -> None:
        there = {name for _, name in socket.if_nameindex()}
        for name in self._sockets.keys() - there:
            self._forget(name)
        for name in there - self._sockets.keys():
            opened = self._sockets[name] = _listen_on(name)
            asyncio.get_running_loop().add_reader(opened, self._read, name)
        if self._use is not None:
            with suppress(OSError):
                self._use(upstreams([Path("/etc/resolv.conf").read_text()], ""))

    def _read(self, name: str) -> None:
        opened = self._sockets[name]
        for _ in range(AT_ONCE):
            try:
                packet, (_, _, kind, _, _) = opened.recvfrom(LONGEST)
            except BlockingIOError:
                return
            except OSError as error:
                log.info("DNS on %s is no longer watched: %s", name, error)
                self._forget(name)
                return
            event = self._watch.take_packet(packet, leaves=kind == _OUTGOING)
            if event is not None:
                self._post(event)

    def _forget(self, name: str) -> None:
        opened = self._sockets.pop(name)
        asyncio.get_running_loop().remove_reader(opened)
        opened.close()


def _listen_on(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        # Before the socket hears of a packet at all.
        take_dns_alone(opened)
        opened.bind((interface, _ALL_PROTOCOLS))
    except OSError:
        opened.close()
        raise
    return opened


def take_dns_alone(packets: socket.socket) -> None:
    """Packets that begin with their IP header, and are not UDP from or to port 53, no longer arrive. Raises OSError."""
    code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*it) for it in _FILTER))
    program = _PROGRAM.pack(len(_FILTER), ctypes.addressof(code))
    packets.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
