"""The daemon's interface to an IPsec datapath, whichever moves the packets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from culvert_proto import CulvertError

from culvert_client.core.client_events import Desired, Measured, PacketTrapped, SoftLimitReached
from culvert_client.core.grant import Address, TunnelId


class Datapath(Protocol):
    @property
    def name(self) -> str:
        """Empty while none is open."""
        ...

    def on_soft_limit(self, told: Callable[[SoftLimitReached], None]) -> None:
        """Call `told` on the loop, once for each SA that comes near a limit."""
        ...

    def on_trapped(self, told: Callable[[PacketTrapped], None]) -> None:
        """Call `told` on the loop for packets that no tunnel carries; of many to one address at times only once."""
        ...

    def on_lost(self, told: Callable[[CulvertError], None]) -> None:
        """Call `told` on the loop when the tunnels are gone. What is protected stays blocked, and `apply` opens it anew."""
        ...

    async def apply(self, desired: Desired) -> None:
        """Bring the whole datapath to this state, idempotent. `blocked` is blocked also when this raises CulvertError."""
        ...

    async def repair(self) -> None:
        """Put back what other programs have removed of the state."""
        ...

    async def measure(self) -> Measured: ...

    async def probe(self, targets: Mapping[TunnelId, Address]) -> None:
        """Send a packet through each tunnel that ends at its gateway, towards that address."""
        ...

    async def moved(self) -> None:
        """This computer is somewhere else: let the gateways hear from it."""
        ...

    async def close(self) -> None:
        """Remove every trace: interface, routes, keys."""
        ...
