"""The desired state of a datapath: plain, comparable values. A repr contains no key."""

from __future__ import annotations

from dataclasses import dataclass, field

from culvert_proto.contract import MIN_REPLAY_WINDOW, NAT_T_PORT, Suite
from culvert_proto.sa import NO_LIMITS, Limits

ALL_PORTS = (0, 65535)


@dataclass(frozen=True, slots=True)
class Selector:
    """The remote side of a tunnel's packets (RFC 4301 section 4.4.1.1).

    `protocol` is IANA's number, None for all; `ports` are the first and last port of TCP or UDP.
    """

    prefix: str
    protocol: int | None = None
    ports: tuple[int, int] = ALL_PORTS


@dataclass(frozen=True, slots=True)
class InboundSa:
    """`key` is the suite's cipher key, its salt or nonce, and its integrity key, in this order.

    For AES-GCM-256 these are 32 and 4 bytes (RFC 4106 section 8.1). `esn`: 64-bit sequence numbers, as the peer's.
    A `replay_window` below 1024 packets is raised to that. At the soft limit a `SoftLimit` is reported, at the hard limit
    the SA ends.
    """

    spi: int
    key: bytes = field(repr=False)
    replay_window: int = MIN_REPLAY_WINDOW
    soft: Limits = NO_LIMITS
    hard: Limits = NO_LIMITS
    suite: str = Suite.AES_GCM_256
    esn: bool = True


@dataclass(frozen=True, slots=True)
class OutboundSa:
    """An outbound SA, with the fields of `InboundSa`. Two SAs must not share a key: they would use the same IVs."""

    spi: int
    key: bytes = field(repr=False)
    soft: Limits = NO_LIMITS
    hard: Limits = NO_LIMITS
    suite: str = Suite.AES_GCM_256
    esn: bool = True


@dataclass(frozen=True, slots=True)
class TunnelState:
    """A tunnel. Addresses and prefixes are text ("10.99.0.2", "10.20.0.10/32").

    `selectors` limit the traffic that it carries to and from its prefixes; without any it carries all. If two tunnels
    have the same prefix, each gets the packets that its selectors match.

    `inbound_only` selectors are accepted inbound but not used outbound: they are for the gateway's own messages.

    With `inner_address6` the tunnel carries both families, each from its own address. During a rekey a tunnel has several
    inbound SAs. Without an outbound SA, packets to `remote_prefixes` are dropped.
    """

    tunnel_id: str
    inner_address: str
    remote_prefixes: tuple[str, ...]
    outer_address: str
    outer_port: int = NAT_T_PORT
    inbound: tuple[InboundSa, ...] = ()
    outbound: OutboundSa | None = None
    inner_address6: str | None = None
    selectors: tuple[Selector, ...] = ()
    inbound_only: tuple[Selector, ...] = ()
    mtu: int = 0
    """Bytes of its largest inner packet; 0, and what is more, for the state's."""


@dataclass(frozen=True, slots=True)
class ClosedTunnel:
    """A closed tunnel that may be opened again, with these inner addresses, at most one for each IP version.

    The addresses stay this computer's own, so that a socket bound to one goes on sending: its packets reach the trap.
    Packets to one of its blocked prefixes get its inner address as source. If several have the same prefix, the last one
    counts.
    """

    inner_addresses: tuple[str, ...]
    remote_prefixes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OnLink:
    """A network on one of this computer's own devices that stays reachable in clear although a blocked prefix contains it.

    `device` is the device's index; `source` is the address to send from, None for the kernel's choice. Only packets that
    leave over this device are let through: when the device goes down, the network is blocked like the prefix around it.
    """

    prefix: str
    device: int
    source: str | None = None


@dataclass(frozen=True, slots=True)
class DatapathState:
    """The whole state. `mtu` is in bytes of inner packet.

    `blocked` prefixes are routed to the TUN device, so that nothing leaks to them while no tunnel carries it. The longest
    matching prefix counts; an equal prefix of a tunnel or of `blocked` precedes one of `on_link`. An SA that exists
    already, with the same SPI and key, keeps its sequence number and its replay window.
    """

    tun_name: str
    udp_port: int
    mtu: int
    inner_addresses: frozenset[str] = frozenset()
    blocked: frozenset[str] = frozenset()
    tunnels: tuple[TunnelState, ...] = ()
    closed: tuple[ClosedTunnel, ...] = ()
    on_link: tuple[OnLink, ...] = ()
