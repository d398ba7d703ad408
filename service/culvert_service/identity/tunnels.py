"""The interfaces through which people, devices and policies close tunnels; the package `tunnels` implements them."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.log import Actor
from culvert_service.audit.transaction import AfterCommit, Transaction


class DeviceTunnels(Protocol):
    async def close_of_device(self, by: Actor, device_id: uuid.UUID) -> int:
        """Close every tunnel of the device. Returns the number of tunnels."""
        ...

    async def close_of_devices(self, transaction: Transaction, devices: Collection[uuid.UUID]) -> AfterCommit:
        """Close every tunnel of these devices, in the transaction that deletes them."""
        ...


class LockedTunnels(Protocol):
    """The open tunnels of a gateway or to a resource, locked before it changes."""

    async def close_unfit(self) -> AfterCommit:
        """In the transaction of the change, after it: close the tunnels that do not fit any more."""
        ...


class Permissions(Protocol):
    async def enforce(self) -> None:
        """Close every tunnel that is not permitted any more."""
        ...

    async def count_unpermitted(self, session: AsyncSession) -> int:
        """The number of tunnels that a commit of the transaction would close."""
        ...
