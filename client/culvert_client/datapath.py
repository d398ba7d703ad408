"""The daemon's interface to an IPsec datapath."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from culvert_proto import CulvertError

from culvert_client.core.client_events import Desired, Measured, PacketTrapped, SoftLimitReached
from culvert_client.core.grant import Address, TunnelId


class Datapath(Protocol):
    @property
    def name(self) -> str:
        """Empty while no datapath is open."""
        ...

    def on_soft_limit(self, notify: Callable[[SoftLimitReached], None]) -> None:
        """Call `notify` on the loop, once for each SA that reaches a soft limit."""
        ...

    def on_trapped(self, notify: Callable[[PacketTrapped], None]) -> None:
        """Call `notify` on the loop for packets that no tunnel carries, but not for each of many to one address."""
        ...

    def on_lost(self, notify: Callable[[CulvertError], None]) -> None:
        """Call `notify` on the loop when the tunnels are lost. Prefixes stay blocked; `apply` opens the datapath again."""
        ...

    async def apply(self, desired: Desired) -> None:
        """Bring the datapath to this state; idempotent. `blocked` is blocked even if this raises CulvertError."""
        ...

    async def repair(self) -> None:
        """Restore parts of the state that other programs have removed."""
        ...

    async def measure(self) -> Measured:
        """The packets and drops of each tunnel."""
        ...

    async def probe(self, targets: Mapping[TunnelId, Address]) -> None:
        """Send a probe to the given target through each tunnel."""
        ...

    async def on_roam(self) -> None:
        """Send packets to the gateways, so that they learn this computer's new address."""
        ...

    async def close(self) -> None:
        """Remove interface, routes and keys."""
        ...
