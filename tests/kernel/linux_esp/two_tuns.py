"""Linux as a gateway between two TUNs that the test holds.

              ┌───────────────────────── the machine ─────────────────────────┐
              │                                                               │
   Tun.write ─┼─► inner   10.1.0.0/16  ─ forward ─ XFRM ─►  outer  192.0.2.1  ┼─► Tun.read   ESP that Linux sealed
   Tun.read  ◄┼── inner   fd01::/16    ◄ XFRM ─ forward ─   outer  2001:db8::1┼── Tun.write  ESP that we sealed
              │                                                               │
              └───────────────────────────────────────────────────────────────┘

What is written and read are whole IP packets; Linux takes one from the TTL of what it forwards, and changes nothing else.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import time
from dataclasses import dataclass, replace
from pathlib import Path

from linux_esp.packets import ESP, UDP, Ip, udp
from linux_esp.suites import Suite
from linux_esp.xfrm import State, ip, policy

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
UDP_ENCAP, UDP_ENCAP_ESPINUDP = 100, 2  # linux/udp.h
NAT_T_PORT = 4500
PEER_PORT = 40123
MTU = 9200
WAIT_SECONDS = 5.0

LINUX = {4: "192.0.2.1", 6: "2001:db8::1"}
PEER = {4: "192.0.2.2", 6: "2001:db8::2"}
LINUX_INNER = {4: "10.1.0.1", 6: "fd01::1"}
HERE = {4: "10.1.0.5", 6: "fd01::5"}
"""The inner host on Linux's side, behind the TUN `inner`."""
THERE = {4: "10.2.0.9", 6: "fd02::9"}
_PREFIXES = {4: ("10.1.0.0/16", "10.2.0.0/16"), 6: ("fd01::/16", "fd02::/16")}


class Tun:
    """The wire's far end of a TUN device."""

    def __init__(self, name: str) -> None:
        self._device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self._device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))

    def write(self, packet: bytes) -> None:
        os.write(self._device, packet)

    def read(self, seconds: float = WAIT_SECONDS) -> bytes | None:
        """The next packet, `None` when there is none in time. Linux's own multicast is passed over."""
        deadline = time.monotonic() + seconds
        while select.select([self._device], [], [], max(0.0, deadline - time.monotonic()))[0]:
            packet = os.read(self._device, 65536)
            if packet[0] >> 4 == 4 or packet[24] != 0xFF:
                return packet
        return None

    def drain(self) -> None:
        while self.read(0) is not None:
            pass


@dataclass(frozen=True, slots=True)
class Shape:
    """The bytes around the ESP of one pair of SAs."""

    suite: Suite
    outer: int = 4
    esn: bool = True
    in_udp: bool = False

    def __str__(self) -> str:
        words = (self.suite.name, f"over-v{self.outer}", "esn" if self.esn else "seq32", "udp" * self.in_udp)
        return "-".join(word for word in words if word)


class Kernel:
    """The TUNs, the addresses, and one pair of SAs at a time."""

    def __init__(self) -> None:
        self.inner, self.outer = Tun("inner"), Tun("outer")
        for path, value in (
            ("ipv4/ip_forward", 1),
            ("ipv6/conf/all/forwarding", 1),
            ("ipv4/conf/all/rp_filter", 0),
            ("ipv4/conf/default/rp_filter", 0),
        ):
            Path("/proc/sys/net", path).write_text(str(value))
        commands: list[str] = []
        for name in ("inner", "outer"):
            commands += [f"link set {name} mtu {MTU} addrgenmode none", f"link set {name} up"]
        for version, length in ((4, 24), (6, 64)):
            nodad = "nodad" if version == 6 else ""
            commands += [
                f"address add {LINUX[version]}/{length} dev outer {nodad}",
                # Linux's ICMP errors are about inner packets, and need an inner source.
                f"address add {LINUX_INNER[version]}/16 dev inner {nodad}",
                f"route add {_PREFIXES[version][1]} dev outer",
            ]
        ip(commands)
        self._sockets = [decapsulating(family, LINUX[v]) for v, family in _FAMILIES.items()]

    def set(self, shape: Shape, inbound: tuple[int, bytes, int], outbound: tuple[int, bytes, int]) -> None:
        """Replace all SAs by this pair, each as SPI, key and last sequence number, seen from Linux."""
        linux, peer = LINUX[shape.outer], PEER[shape.outer]
        ports = (PEER_PORT, NAT_T_PORT) if shape.in_udp else None
        spi, key, after = inbound
        self.inbound = State(peer, linux, spi, shape.suite, key, shape.esn, ports, after=after)
        spi, key, after = outbound
        ports = (NAT_T_PORT, PEER_PORT) if shape.in_udp else None
        self.outbound = State(linux, peer, spi, shape.suite, key, shape.esn, ports, after=after)
        commands = ["xfrm state flush", "xfrm policy flush", self.inbound.add(), self.outbound.add()]
        for here, there in _PREFIXES.values():
            commands.append(policy("out", (here, there), (linux, peer)))
            commands.append(policy("fwd", (there, here), (peer, linux)))
        ip(commands)
        for tun in (self.inner, self.outer):
            tun.drain()

    def set_link_mtu(self, mtu: int = MTU) -> None:
        """Sets the MTU of the link that carries ESP."""
        ip([f"link set outer mtu {mtu}"])


_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


def decapsulating(family: socket.AddressFamily, address: str) -> socket.socket:
    """A socket whose datagrams the kernel takes for ESP (RFC 3948)."""
    opened = socket.socket(family, socket.SOCK_DGRAM)
    opened.bind((address, NAT_T_PORT))
    opened.setsockopt(socket.IPPROTO_UDP, UDP_ENCAP, UDP_ENCAP_ESPINUDP)
    return opened


def wrapped(shape: Shape, esp: bytes, tos: int = 0) -> Ip:
    """ESP on its way to Linux."""
    src, dst = PEER[shape.outer], LINUX[shape.outer]
    if shape.in_udp:
        return Ip(src, dst, UDP, udp(src, dst, PEER_PORT, NAT_T_PORT, esp), tos=tos)
    return Ip(src, dst, ESP, esp, tos=tos)


def unwrapped(shape: Shape, packet: bytes) -> bytes:
    """The ESP that Linux sent; its outer headers are as they should be."""
    outer = Ip.parse(packet)
    assert (outer.src, outer.dst) == (LINUX[shape.outer], PEER[shape.outer])
    assert outer.protocol == (UDP if shape.in_udp else ESP)
    if not shape.in_udp:
        return outer.payload
    sport, dport, length, check = struct.unpack_from("!HHHH", outer.payload)
    assert (sport, dport, length) == (NAT_T_PORT, PEER_PORT, len(outer.payload))
    assert bool(check) == (shape.outer == 6)
    return outer.payload[8:]


def forwarded(packet: Ip) -> Ip:
    """As Linux passes it on."""
    return replace(packet, ttl=packet.ttl - 1)
