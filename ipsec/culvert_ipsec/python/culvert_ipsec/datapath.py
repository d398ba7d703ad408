"""The interface of every backend of the datapath."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from culvert_ipsec.counters import Counters
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
