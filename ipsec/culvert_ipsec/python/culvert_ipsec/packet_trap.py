"""Captures packets that are routed to the TUN device and match no tunnel, on a packet socket (packet(7)).

```
 program ─► route: device culvert0 ─┬─► ESP, or dropped
                ▲                   └─► filter: outgoing, to no tunnel's prefix ─► PacketTrap reports the destination,
                └── the flow's first packet, when its tunnel is open ◄──────────── and holds the packet for two seconds
```
The filter runs in the kernel (socket(7), SO_ATTACH_FILTER), so that packets of a tunnel do not wake the process. The first
packet of a flow is held and sent when its tunnel is open, so that its program need not send it again.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

from culvert_ipsec.desired import TunnelState

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# linux/if_ether.h, linux/if_packet.h, asm-generic/socket.h
_ALL_PROTOCOLS, _ETHERTYPE = 3, {4: 0x0800, 6: 0x86DD}
_OUTGOING = 4
_SO_ATTACH_FILTER = 26
_SOL_PACKET, _PACKET_VNET_HDR = 263, 15
# linux/virtio_net.h: the length of struct virtio_net_hdr, which names the checksum still to be computed.
_OFFLOADS = 10
# linux/filter.h
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD_WORD, _LOAD_BYTE, _AND, _SHIFT_RIGHT = 0x20, 0x30, 0x54, 0x74
_JUMP, _JUMP_IF_EQUAL, _RETURN = 0x05, 0x15, 0x06
_PACKET_TYPE = 0xFFFFF004
# The offset of the destination, and the length of the header: RFC 791, RFC 8200.
_DESTINATION = {4: (16, 4), 6: (24, 16)}
_IPV6_HEADER, _PORTS = 40, 4
# Our own limits: bytes of the receive buffer, packets in one `take`, and instructions of the filter (the kernel's is 4096).
_MEMORY = 1 << 15
_AT_ONCE = 256
_LONGEST = 2000
# Limits for held packets: bytes of a packet, flows, and seconds, after which the sender has given up or has sent again.
_HELD_LONGEST = 2048
_HELD_FLOWS = 64
_HELD_FOR = 2.0

Instruction = tuple[int, int, int, int]
"""Code, instructions to skip when true, when false, operand."""
_TAKE: Instruction = (_RETURN, 0, 0, _HELD_LONGEST + 1)
_LEAVE: Instruction = (_RETURN, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class PacketFlow:
    """`ports`: the first bytes behind the IP header, where TCP and UDP have them."""

    source: Address
    destination: Address
    protocol: int
    ports: bytes


@dataclass(frozen=True, slots=True)
class _Held:
    frame: bytes
    until: float


class PacketTrap:
    """Needs CAP_NET_RAW. Raises OSError. Its methods may be called from any thread. `now` is a clock in seconds."""

    def __init__(self, device: str, now: Callable[[], float] = time.monotonic) -> None:
        self._device, self._now = device, now
        self._one_at_a_time = threading.Lock()
        self._found: set[Address] = set()
        self._held: dict[PacketFlow, _Held] = {}
        # Each prefix with the source addresses that its tunnel carries.
        self._carried: list[tuple[Network, list[Address]]] = []
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK)
        try:
            # The header keeps an offloaded checksum offloaded when the packet is sent again.
            self._socket.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _MEMORY)
            # Set the filter before `bind` starts the reception.
            self.leave_to_tunnels(())
            self._socket.bind((device, _ALL_PROTOCOLS))
        except OSError:
            self._socket.close()
            raise

    def leave_to_tunnels(self, prefixes: Iterable[Network]) -> None:
        """Report no packets to these prefixes, which replace those of the last call."""
        program = list(filter_of(prefixes))
        code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*it) for it in program))
        attached = struct.pack("@HP", len(program), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)

    def fileno(self) -> int:
        """A descriptor that is readable while `take` has destinations to return."""
        return self._socket.fileno()

    def take(self) -> frozenset[Address]:
        """The destinations of trapped packets. Never waits; if there are many, some are lost."""
        with self._one_at_a_time:
            self._read()
            found, self._found = self._found, set()
            return frozenset(found)

    def hold(self, tunnels: Iterable[TunnelState]) -> None:
        """Call this before these tunnels are opened: earlier packets are held for them, later ones go through them."""
        with self._one_at_a_time:
            self._read()
            self._carried = [(ip_network(to), _own(it)) for it in tunnels for to in it.remote_prefixes]

    def release(self) -> None:
        """Send the packets held for the tunnels, which are open now."""
        with self._one_at_a_time:
            now = self._now()
            self._held = {flow: held for flow, held in self._held.items() if held.until > now}
            for flow in list(self._held):
                if any(flow.destination in to and flow.source in own for to, own in self._carried):
                    self._send(flow, self._held.pop(flow).frame)

    def _read(self) -> None:
        now = self._now()
        for _ in range(_AT_ONCE):
            try:
                frame = self._socket.recv(_OFFLOADS + _HELD_LONGEST + 1)
            except OSError:
                break  # Nothing waits, or the device is down.
            if (flow := flow_of(frame[_OFFLOADS:])) is not None:
                self._found.add(flow.destination)
                self._hold(flow, frame, now)

    def _hold(self, flow: PacketFlow, frame: bytes, now: float) -> None:
        """Hold the first packet of a flow, unless it is too long or a tunnel has carried it already."""
        before = self._held.get(flow)
        if len(frame) > _OFFLOADS + _HELD_LONGEST or (before is not None and before.until > now):
            return
        if any(flow.destination in to for to, _ in self._carried):
            return
        if len(self._held) >= _HELD_FLOWS:
            self._held = {flow: held for flow, held in self._held.items() if held.until > now}
        if len(self._held) < _HELD_FLOWS:
            self._held[flow] = _Held(frame, now + _HELD_FOR)

    def _send(self, flow: PacketFlow, frame: bytes) -> None:
        # The socket does not receive its own packets (packet(7)). A packet that the device refuses is lost.
        with suppress(OSError):
            self._socket.sendto(frame, (self._device, _ETHERTYPE[flow.destination.version]))

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def flow_of(packet: bytes) -> PacketFlow | None:
    """The flow of an IP packet; None if it is not one."""
    version = packet[0] >> 4 if packet else 0
    start, length = _DESTINATION.get(version, (0, 0))
    raw = packet[start - length : start + length]
    if not length or len(raw) < 2 * length:
        return None
    header, protocol = (4 * (packet[0] & 0xF), packet[9]) if version == 4 else (_IPV6_HEADER, packet[6])
    source, destination = ip_address(raw[:length]), ip_address(raw[length:])
    return PacketFlow(source, destination, protocol, packet[header : header + _PORTS])


def _own(tunnel: TunnelState) -> list[Address]:
    return [ip_address(it) for it in (tunnel.inner_address, tunnel.inner_address6) if it is not None]


def filter_of(prefixes: Iterable[Network]) -> Iterator[Instruction]:
    """A filter that accepts the headers of outgoing packets, except of those to the prefixes.

    If the filter would become too long, some prefixes are left out: packets to these are reported, although tunnels carry
    them.
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
    """Ignore a packet whose destination is in the prefix; for any other packet continue behind these instructions."""
    start, length = _DESTINATION[prefix.version]
    network, mask = prefix.network_address.packed, prefix.netmask.packed
    words = [at for at in range(0, length, 4) if any(mask[at : at + 4])]
    for left, at in zip(reversed(range(len(words))), words, strict=True):
        yield _LOAD_WORD, 0, 0, start + at
        yield _AND, 0, 0, int.from_bytes(mask[at : at + 4])
        # If the word differs, jump over the rest of this prefix's instructions.
        yield _JUMP_IF_EQUAL, 0, 3 * left + 1, int.from_bytes(network[at : at + 4])
    yield _LEAVE
