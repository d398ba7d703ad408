"""What the daemon needs of an IPsec datapath, whichever moves the packets."""

from __future__ import annotations

from typing import Protocol

from culvert_client.core.client_events import Desired, Measured


class Datapath(Protocol):
    name: str

    async def apply(self, desired: Desired) -> None:
        """Bring the whole datapath to this state. Idempotent. Raises CulvertError(DATAPATH_FAILED)."""
        ...

    async def measure(self) -> Measured: ...

    async def close(self) -> None:
        """Remove every trace: interface, routes, keys."""
        ...
