"""What every backend of the datapath offers."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from culvert_ipsec.counters import Counters
from culvert_ipsec.desired import DatapathState


class DatapathError(Exception):
    """The state could not be reached; the text says why and what to do. Applying again starts from what is there."""


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
        """Where they wanted to go. Never waits. Who asks seldom is told less."""
        ...


class Datapath(Protocol):
    """After `close`, every method but `close` raises DatapathError, and `trap` is gone."""

    trap: Trap

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

    def close(self) -> None:
        """Remove everything. A second call does nothing."""
        ...
