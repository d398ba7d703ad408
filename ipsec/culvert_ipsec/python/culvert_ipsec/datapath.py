"""The interface of every backend of the datapath, with its errors and counters."""

from __future__ import annotations

import enum
import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from culvert_ipsec.desired import DatapathState


class DatapathError(Exception):
    """The state could not be applied; the text says why and what to do. The next `apply` starts from the present state."""


class Obstacle(enum.Enum):
    """The cause for which a datapath cannot be opened."""

    PORT_TAKEN = "another socket has the UDP port"
    NAME_TAKEN = "another device or program has the device's name"
    NO_TUN = "the kernel offers no TUN devices"
    FORBIDDEN = "a capability is missing"
    OTHER = "other"


class NotOpenedError(DatapathError):
    def __init__(self, text: str, obstacle: Obstacle) -> None:
        super().__init__(text)
        self.obstacle = obstacle


class DeviceGoneError(DatapathError):
    """Another program removed or renamed the device. The datapath is unusable: close it and open another one."""


@dataclass(frozen=True, slots=True)
class SoftLimit:
    """An SA has reached its soft limit and needs a rekey. Each SA reports it once."""

    tunnel_id: str
    spi: int
    inbound: bool


@dataclass(frozen=True, slots=True)
class FlowCounters:
    """Inner packets and bytes of one direction; `last` is the last packet's `time.monotonic`, None before the first."""

    packets: int
    bytes: int
    last: float | None


@dataclass(frozen=True, slots=True)
class TunnelCounters:
    """`drops` by cause, as in `Counters.drops`."""

    inbound: FlowCounters
    outbound: FlowCounters
    drops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of the whole datapath. A tunnel's counters start at 0 and continue across rekeys.

    `drops` has malformed, unknown_spi, replay, icv, selector, dummy, hard_limit, ecn (RFC 6040 section 4.2), no_policy
    (routed to the TUN device without an SA to carry it) and send_failed (refused by the operating system). It includes
    the drops of every tunnel, also of removed ones. Keepalives and `non_esp` (IKE) are RFC 3948 sections 2.3
    and 2.2.
    """

    tunnels: Mapping[str, TunnelCounters]
    drops: Mapping[str, int]
    keepalives_in: int
    keepalives_out: int
    non_esp: int

    @property
    def no_policy(self) -> int:
        return self.drops["no_policy"]


class Trap(Protocol):
    """Reports packets to blocked prefixes that no tunnel carries. The packets are dropped even if nobody calls `take`."""

    def fileno(self) -> int:
        """A descriptor that is readable while `take` has destinations to return."""
        ...

    def take(self) -> frozenset[IPv4Address | IPv6Address]:
        """The destinations of trapped packets. Never waits. If it is called rarely, some of them are lost."""
        ...


class Removals(Protocol):
    """The blocking settings that other programs have removed. `repair` restores them."""

    def fileno(self) -> int:
        """A descriptor that is readable while something may have been removed."""
        ...

    def take(self) -> bool:
        """Whether something may have been removed since the last call. Never waits."""
        ...


class Datapath(Protocol):
    """After `close`, every method but `close` raises DatapathError, and `trap` and `removals` are gone."""

    trap: Trap
    removals: Removals

    def apply(self, desired: DatapathState) -> None:
        """Make `desired` the whole state; idempotent."""
        ...

    def counters(self) -> Counters: ...

    def fileno(self) -> int:
        """A descriptor that is readable while `take_soft_limits` has some to return; `close` closes it."""
        ...

    def take_soft_limits(self) -> list[SoftLimit]:
        """The soft limits since the last call. Never waits."""
        ...

    def close(self, *, unblock: bool = True) -> None:
        """Remove everything; unless `unblock`, the blocked prefixes stay blocked. A second call does nothing."""
        ...


def not_opened(error: OSError, tun_name: str, udp_port: int) -> NotOpenedError:
    """The error that tells why a datapath could not be opened, with a remedy."""
    match error.errno:
        case errno.EADDRINUSE:
            return NotOpenedError(
                f"UDP port {udp_port} is taken by another program, perhaps another IPsec daemon. Stop it first.",
                Obstacle.PORT_TAKEN,
            )
        case errno.EBUSY:
            return _name_taken(tun_name)
        case errno.EINVAL if tun_name in (name for _, name in socket.if_nameindex()):
            return _name_taken(tun_name)
        case errno.EPERM | errno.EACCES:
            return NotOpenedError(
                "Opening the tunnel device needs root or CAP_NET_ADMIN.", Obstacle.FORBIDDEN
            )
        case errno.ENOENT | errno.ENODEV | errno.ENXIO:
            return NotOpenedError(
                "The kernel has no /dev/net/tun. Load the module: modprobe tun.", Obstacle.NO_TUN
            )
        case _:
            return NotOpenedError(
                f"The tunnel device {tun_name} could not be opened: {error}.", Obstacle.OTHER
            )


def _name_taken(tun_name: str) -> NotOpenedError:
    return NotOpenedError(
        f"The device {tun_name} belongs to another program. Stop it, or choose another name.",
        Obstacle.NAME_TAKEN,
    )
