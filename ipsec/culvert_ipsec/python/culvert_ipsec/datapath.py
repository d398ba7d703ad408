"""The interface of every backend of the datapath."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from culvert_ipsec.counters import Counters
from culvert_ipsec.desired import DatapathState


class DatapathError(Exception):
    """The state could not be reached; the text says why and what to do. Applying again starts from what is there."""


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
    """Another program removed or renamed the device. The datapath is of no more use: close it and open another one."""


@dataclass(frozen=True, slots=True)
class SoftLimit:
    """An SA came near a limit: time to rekey. Told once for an SA."""

    tunnel_id: str
    spi: int
    inbound: bool


class Trap(Protocol):
    """Packets to what is blocked, which no tunnel carries. They are dropped whether anybody listens or not."""

    def fileno(self) -> int:
        """A descriptor that is readable while `take` has something to tell."""
        ...

    def take(self) -> frozenset[IPv4Address | IPv6Address]:
        """The destinations of trapped packets. Never waits. A caller who comes rarely gets only a part of them."""
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
        """A descriptor that is readable while soft limits wait to be taken; gone after `close`."""
        ...

    def take_soft_limits(self) -> list[SoftLimit]:
        """Never waits."""
        ...

    def close(self, *, unblock: bool = True) -> None:
        """Remove everything; unless `unblock`, what is blocked stays so. A second call does nothing."""
        ...
