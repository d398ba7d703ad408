"""Verdicts on frames captured on the internet segment, one by one, from their bytes alone.

frame ─► marker or inner address in it? ──────────────────────────► cleartext
      ─► ARP, ND, MLD, IGMP, ICMP errors about what follows ──────► infrastructure
      ─► the device's ping of a gateway, of its length ─────────► infrastructure
      ─► ESP, or UDP 4500, to or from a gateway, shaped as ESP ─► esp
      ─► port 53 of a name server, shaped as DNS ───────────────► dns
      ─► a controller's two ports, shaped as TLS ───────────────► controller_tls
      ─► a controller's port 80, without data ──────────────────► infrastructure
      ─► anything else ───────────────────────────────────────────► cleartext
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network
from itertools import product

from culvert_lab import topology
from culvert_lab.streams import DNS_HEADER, TLS_HEADER, Framing, Stream, dns_message, tls_record

ETHERTYPE_IPV4, ETHERTYPE_ARP, ETHERTYPE_IPV6 = 0x0800, 0x0806, 0x86DD
ICMP, IGMP, TCP, UDP, ESP, ICMPV6, HOP_BY_HOP = 1, 2, 6, 17, 50, 58, 0
ICMP_ERRORS, ICMP_ECHO = (3, 11, 12), (0, 8)
PING = 8 + 16  # header and token
ICMPV6_NEIGHBOUR_AND_MULTICAST = (*range(130, 138), 143)
LOWEST_SPI = 256  # RFC 4303 section 2.1
SHORTEST_ESP = 8 + 8 + 4 + 16  # header, IV, one padded word, ICV
HTTP_PORT = 80
KEEPALIVE = b"\xff"  # RFC 3948 section 2.3


class Kind(StrEnum):
    ESP = "esp"
    DNS = "dns"
    CONTROLLER_TLS = "controller_tls"
    ARP = "arp"
    INFRASTRUCTURE = "infrastructure"
    CLEARTEXT = "cleartext"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A frame's kind. `why` says what is wrong with a cleartext one; `spi` and `sequence` belong to an ESP one."""

    kind: Kind
    why: str = ""
    spi: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Allowed:
    """The addresses and ports outside of the tunnel, and what belongs inside of it. Prefix lengths are 8, 16 or 24."""

    gateways: frozenset[IPv4Address]
    name_servers: frozenset[IPv4Address]
    controllers: frozenset[IPv4Address]
    controller_ports: tuple[int, ...]
    esp_port: int
    pool: IPv4Network
    protected: IPv4Network
    marker: bytes


LAB = Allowed(
    gateways=frozenset({IPv4Address(topology.GATEWAY_ADDRESS)}),
    name_servers=frozenset({IPv4Address(topology.DNS_ADDRESS)}),
    controllers=frozenset({IPv4Address(topology.CONTROLLER_ADDRESS)}),
    controller_ports=(topology.REST_PORT, topology.AGENT_PORT),
    esp_port=topology.ESP_PORT,
    pool=IPv4Network(topology.INNER_POOL),
    protected=IPv4Network(topology.PROTECTED_PREFIX),
    marker=topology.MARKER.encode(),
)


def _clear(why: str) -> Verdict:
    return Verdict(Kind.CLEARTEXT, why)


ARP = Verdict(Kind.ARP)
DNS = Verdict(Kind.DNS)
CONTROLLER_TLS = Verdict(Kind.CONTROLLER_TLS)
INFRASTRUCTURE = Verdict(Kind.INFRASTRUCTURE)


class Classifier:
    """Judges the frames of one capture in the order in which they came: TLS and DNS over TCP span frames."""

    def __init__(self, allowed: Allowed = LAB) -> None:
        self._allowed = allowed
        self._streams: dict[tuple[str, bytes], Stream] = {}
        pool, protected = _pattern(allowed.pool), _pattern(allowed.protected)
        # A plain IPv4 header from or to the inside. Ciphertext matches by chance once in 2^47 bytes.
        self._inner_header = re.compile(
            rb"\x45.{11}(?:" + pool + protected + b"|" + protected + pool + b")", re.DOTALL
        )

    def classify(self, interface: str, frame: bytes) -> Verdict:
        """The verdict on one Ethernet frame. What can't be understood is cleartext."""
        if self._allowed.marker in frame:
            return _clear("the intranet page's text")
        if len(frame) < 14:
            return _clear("a frame without a header")
        (kind,) = struct.unpack_from("!H", frame, 12)
        packet = frame[14:]
        if kind == ETHERTYPE_ARP:
            return self._arp(packet)
        if kind == ETHERTYPE_IPV6:
            return _ipv6(packet)
        if kind == ETHERTYPE_IPV4:
            return self._ipv4(interface, packet)
        return _clear(f"EtherType {kind:#06x}")

    def _arp(self, packet: bytes) -> Verdict:
        if len(packet) < 28:
            return _clear("ARP, truncated")
        asked = IPv4Address(packet[24:28])
        return _clear(f"ARP for the inner address {asked}") if self._is_inner(asked) else ARP

    def _ipv4(self, interface: str, packet: bytes) -> Verdict:
        size = (packet[0] & 0x0F) * 4 if packet else 0
        if len(packet) < 20 or packet[0] >> 4 != 4 or size < 20:
            return _clear("IPv4, malformed")
        total, _, fragment = struct.unpack_from("!HHH", packet, 2)
        if not size <= total <= len(packet):
            return _clear("IPv4, truncated")
        source, target = IPv4Address(packet[12:16]), IPv4Address(packet[16:20])
        for address in (source, target):
            if self._is_inner(address):
                return _clear(f"a packet {source} → {target}: {address} belongs inside the tunnel")
        if fragment & 0x3FFF:
            return _clear(f"a fragment {source} → {target}")
        payload = packet[size:total]
        judge = self._judges().get(packet[9])
        if judge is None:
            return _clear(f"IP protocol {packet[9]} {source} → {target}")
        return judge(interface, source, target, payload)

    def _judges(self) -> dict[int, Callable[[str, IPv4Address, IPv4Address, bytes], Verdict]]:
        return {
            ESP: self._esp,
            UDP: self._udp,
            TCP: self._tcp,
            ICMP: self._icmp,
            IGMP: lambda _interface, _source, _target, _payload: INFRASTRUCTURE,
        }

    def _esp(self, _interface: str, source: IPv4Address, target: IPv4Address, payload: bytes) -> Verdict:
        if self._allowed.gateways.isdisjoint((source, target)):
            return _clear(f"ESP {source} → {target}: neither is a gateway")
        if len(payload) < SHORTEST_ESP or len(payload) % 4:
            return _clear(f"ESP of {len(payload)} bytes: not a length that AES-GCM gives")
        spi, sequence = struct.unpack_from("!II", payload)
        if spi < LOWEST_SPI:
            return _clear(f"SPI {spi}: reserved, or no ESP")
        if self._inner_header.search(payload):
            return _clear("ESP with an inner packet in clear")
        return Verdict(Kind.ESP, spi=spi, sequence=sequence)

    def _udp(self, interface: str, source: IPv4Address, target: IPv4Address, payload: bytes) -> Verdict:
        if len(payload) < 8:
            return _clear("UDP, truncated")
        ends = {(source, int.from_bytes(payload[0:2])), (target, int.from_bytes(payload[2:4]))}
        data = payload[8:]
        if not ends.isdisjoint((it, self._allowed.esp_port) for it in self._allowed.gateways):
            return INFRASTRUCTURE if data == KEEPALIVE else self._esp(interface, source, target, data)
        if not ends.isdisjoint((it, 53) for it in self._allowed.name_servers):
            length = len(data).to_bytes(2)
            shaped = len(data) >= 12 and dns_message(length + data[:4]) >= 0
            return DNS if shaped else _clear("port 53, but no DNS")
        return _clear(
            f"UDP {source}:{payload[0] << 8 | payload[1]} → {target}:{payload[2] << 8 | payload[3]}"
        )

    def _tcp(self, interface: str, source: IPv4Address, target: IPv4Address, payload: bytes) -> Verdict:
        size = (payload[12] >> 4) * 4 if len(payload) > 12 else 0
        if len(payload) < 20 or not 20 <= size <= len(payload):
            return _clear("TCP, malformed")
        source_port, target_port, sequence = struct.unpack_from("!HHI", payload)
        ends = {(source, source_port), (target, target_port)}
        flow = source.packed + target.packed + payload[0:4]
        if not ends.isdisjoint(product(self._allowed.controllers, self._allowed.controller_ports)):
            stream = self._stream(interface, flow, tls_record, TLS_HEADER)
            good, name = CONTROLLER_TLS, "TLS"
        elif not ends.isdisjoint((it, 53) for it in self._allowed.name_servers):
            stream = self._stream(interface, flow, dns_message, DNS_HEADER)
            good, name = DNS, "DNS"
        elif not payload[size:] and not ends.isdisjoint((it, HTTP_PORT) for it in self._allowed.controllers):
            # culvertd probes for a captive portal when the controller does not answer. No program listens at this port.
            return INFRASTRUCTURE
        else:
            return _clear(f"TCP {source}:{source_port} → {target}:{target_port}")
        if stream.take(sequence, payload[13], payload[size:]):
            return good
        return _clear(f"TCP {source}:{source_port} → {target}:{target_port} that is no {name}")

    def _stream(self, interface: str, flow: bytes, framing: Framing, header_size: int) -> Stream:
        key = (interface, flow)
        if key not in self._streams:
            self._streams[key] = Stream(framing, header_size)
        return self._streams[key]

    def _icmp(self, interface: str, source: IPv4Address, target: IPv4Address, payload: bytes) -> Verdict:
        if (
            payload[:1]
            and payload[0] in ICMP_ECHO
            and not self._allowed.gateways.isdisjoint((source, target))
        ):
            # A random token, and zeros as far as the path's length is probed.
            is_probe = len(payload) >= PING and not payload[PING:].strip(b"\0")
            return INFRASTRUCTURE if is_probe else _clear(f"a ping of {len(payload)} bytes")
        if len(payload) < 8 or payload[0] not in ICMP_ERRORS:
            return _clear(f"ICMP {source} → {target}")
        quoted = payload[8:]
        if len(quoted) < 20 or quoted[0] >> 4 != 4:
            return _clear("ICMP error, malformed")
        for address in (IPv4Address(quoted[12:16]), IPv4Address(quoted[16:20])):
            if self._is_inner(address):
                return _clear(f"ICMP error about a packet with {address}")
        return INFRASTRUCTURE

    def _is_inner(self, address: IPv4Address) -> bool:
        return address in self._allowed.pool or address in self._allowed.protected


def _pattern(network: IPv4Network) -> bytes:
    fixed = network.network_address.packed[: network.prefixlen // 8]
    return re.escape(fixed) + b"." * (4 - len(fixed))


def _ipv6(packet: bytes) -> Verdict:
    """The lab's outer network is IPv4: of IPv6 only what hosts say by themselves (RFC 4861, RFC 3810)."""
    if len(packet) < 40 or packet[0] >> 4 != 6:
        return _clear("IPv6, malformed")
    following, rest = packet[6], packet[40:]
    if following == HOP_BY_HOP and len(rest) >= 8:
        following, rest = rest[0], rest[(rest[1] + 1) * 8 :]
    if following == ICMPV6 and rest and rest[0] in ICMPV6_NEIGHBOUR_AND_MULTICAST:
        return INFRASTRUCTURE
    return _clear(f"IPv6 next header {following}")
