"""Values of Linux's IPsec: security associations, policies, and the kernel's notices (RFC 4301 section 4.4)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from culvert_proto.sa import Limits

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
SaName = tuple[Address, int]
"""Destination and SPI."""


class Direction(enum.IntEnum):
    IN = 0
    OUT = 1


@dataclass(frozen=True, slots=True)
class Algorithms:
    """Algorithms by the kernel's names. `key` is the cipher's with its salt or nonce; without `integrity` it is an AEAD."""

    cipher: str
    key: bytes = field(repr=False)
    icv_bits: int
    integrity: str = ""
    integrity_key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Replay:
    """The last sequence numbers sent and received. All numbers up to `received` count as received."""

    sent: int = 0
    received: int = 0


@dataclass(frozen=True, slots=True)
class Sa:
    """An SA in tunnel mode, for both inner families, ESP in UDP from `ports[0]` to `ports[1]` (RFC 3948)."""

    src: Address
    dst: Address
    spi: int
    reqid: int
    algorithms: Algorithms
    ports: tuple[int, int]
    soft: Limits
    hard: Limits
    window: int
    esn: bool = True
    mark: int = 0
    """The mark of the ESP packets; 0 is none."""

    @property
    def name(self) -> SaName:
        return self.dst, self.spi


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports that equal `value` where `mask` has ones."""

    value: int = 0
    mask: int = 0


ANY_PORT = Ports()


@dataclass(frozen=True, slots=True)
class Traffic:
    """A selector. `protocol` 0 is all."""

    src: Network
    dst: Network
    protocol: int = 0
    src_ports: Ports = ANY_PORT
    dst_ports: Ports = ANY_PORT


@dataclass(frozen=True, slots=True)
class Template:
    """The SA that packets need, in tunnel mode between these addresses. `spi` 0 matches any."""

    src: Address
    dst: Address
    reqid: int
    spi: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy. The lowest `priority` counts if several match. Without the template's SA nothing passes;
    without a template everything passes in clear."""

    direction: Direction
    traffic: Traffic
    priority: int
    template: Template | None

    @property
    def name(self) -> tuple[Direction, Traffic]:
        return self.direction, self.traffic


@dataclass(frozen=True, slots=True)
class SaSeen:
    """An SA read from the kernel; `late`, `replayed` and `forged` count dropped packets."""

    name: SaName
    reqid: int
    packets: int
    bytes: int
    late: int
    replayed: int
    forged: int
    replay: Replay


@dataclass(frozen=True, slots=True)
class Expired:
    """A limit was reached; after a hard one the kernel has removed the SA."""

    sa: SaSeen
    hard: bool
