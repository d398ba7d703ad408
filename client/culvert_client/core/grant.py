"""The controller's grants of tunnels and key renewals, as values that controller/messages.py has checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NewType

from culvert_proto.contract import Suite
from culvert_proto.dns_name import is_wildcard
from culvert_proto.sa import Limits

TunnelId = NewType("TunnelId", str)
Spi = NewType("Spi", int)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


# IANA's numbers.
HTTPS, HTTP = 443, 80
_TCP = 6


@dataclass(frozen=True, slots=True)
class Sa:
    """A one-way SA with 64-bit sequence numbers. `key` has the suite's length."""

    spi: Spi
    key: bytes = field(repr=False)
    replay_window: int
    soft: Limits
    hard: Limits
    suite: Suite = Suite.AES_GCM_256


@dataclass(frozen=True, slots=True)
class SaPair:
    """A generation of a tunnel's keys. `drain` in seconds."""

    generation: int
    inbound: Sa
    outbound: Sa
    drain: float


@dataclass(frozen=True, slots=True)
class Selector:
    """The far side of a tunnel's packets. `protocol`: IANA's number, None for all; `ports`: first and last."""

    prefix: Network
    protocol: int | None
    ports: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Probe:
    """The gateway answers a packet to `target` with hop limit 1 from `source`, through one of its tunnels."""

    target: Address
    source: Address


@dataclass(frozen=True, slots=True)
class Tunnel:
    """The fields common to all generations of a tunnel. `idle`: seconds, 0 for never; `mtu`: bytes of an inner packet.

    `path_mtu`: the path MTU reported to the controller, in bytes of an outer packet; 0 for none.
    Without `inner_address6` it carries only IPv4; without `selectors` all packets to its prefixes.
    `code_until`, `code_seconds`: as in agent.proto; the datapath does not depend on them.
    Of two tunnels for a packet, the one with the longer prefix carries it; of equal ones, the higher `precedence`.
    """

    tunnel_id: TunnelId
    resource: str
    fqdn: str
    gateway: str
    inner_address: Address
    remote_prefixes: tuple[Network, ...]
    outer_address: Address
    outer_port: int
    idle: float
    mtu: int
    inner_address6: Address | None = None
    selectors: tuple[Selector, ...] = ()
    precedence: int = 0
    probe: Probe | None = None
    path_mtu: int = 0
    code_until: int = field(default=0, compare=False)
    code_seconds: int = field(default=0, compare=False)

    @property
    def inner_addresses(self) -> tuple[Address, ...]:
        return tuple(filter(None, (self.inner_address, self.inner_address6)))

    @property
    def any_host(self) -> Address:
        """The first possible host address behind the gateway."""
        prefix = self.remote_prefixes[0]
        return prefix[0] if prefix.num_addresses == 1 else prefix[1]

    def covers(self, address: Address) -> bool:
        """Whether packets to `address` go through this tunnel."""
        return any(address in prefix for prefix in self.remote_prefixes)

    def carries_port(self, port: int) -> bool:
        """Whether TCP to this port goes through this tunnel, at one of its addresses."""
        return not self.selectors or any(
            it.protocol in (None, _TCP) and it.ports[0] <= port <= it.ports[1] for it in self.selectors
        )

    @property
    def page(self) -> str:
        """The address of its page; empty without a port of the web, and for a wildcard."""
        if is_wildcard(self.fqdn):
            return ""
        schemes = {"http": HTTP, "https": HTTPS}
        return next((f"{it}://{self.fqdn}/" for it, port in schemes.items() if self.carries_port(port)), "")


@dataclass(frozen=True, slots=True)
class Source:
    """This computer's addresses in packets to `prefixes` that no tunnel carries yet, at most one for each IP version."""

    prefixes: tuple[Network, ...]
    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Sas:
    """A tunnel's SAs in the datapath; the newest inbound SA comes last."""

    tunnel: Tunnel
    inbound: tuple[Sa, ...]
    outbound: Sa


@dataclass(frozen=True, slots=True)
class Usage:
    """A tunnel's counters since its installation. `sent_last`: the last packet is known to be an outbound one."""

    packets_in: int = 0
    packets_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    sent_last: bool = False

    def __sub__(self, base: Usage) -> Usage:
        return Usage(
            self.packets_in - base.packets_in,
            self.packets_out - base.packets_out,
            self.bytes_in - base.bytes_in,
            self.bytes_out - base.bytes_out,
            self.sent_last,
        )
