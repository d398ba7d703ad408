"""Calls on the system bus. The D-Bus library is imported only when a bus is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbus_fast.aio import MessageBus

PATIENCE = 5.0
"""Seconds for a call."""


@asynccontextmanager
async def system_bus() -> AsyncGenerator[MessageBus]:
    """Raises OSError without a system bus."""
    from dbus_fast import BusType, DBusError
    from dbus_fast.aio import MessageBus

    try:
        async with asyncio.timeout(PATIENCE):
            bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
    except (DBusError, TimeoutError, EOFError, ValueError) as error:
        raise OSError(f"the system bus cannot be used: {error or 'no answer'}") from error
    try:
        yield bus
    finally:
        bus.disconnect()


async def call(
    bus: MessageBus,
    destination: str,
    path: str,
    interface: str,
    member: str,
    signature: str = "",
    body: Sequence[Any] = (),
) -> list[Any]:
    """Raises OSError if the service does not run, refuses or does not answer. The bus does not start the service, which an
    administrator may have stopped."""
    from dbus_fast import Message, MessageFlag, MessageType

    message = Message(
        destination=destination,
        path=path,
        interface=interface,
        member=member,
        signature=signature,
        body=list(body),
        flags=MessageFlag.NO_AUTOSTART,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            reply = await bus.call(message)
    except (TimeoutError, EOFError) as error:
        raise OSError(f"{destination} did not answer to {member}") from error
    if reply.message_type is MessageType.ERROR:
        why = " ".join(map(str, reply.body))
        raise OSError(f"{destination} refused {member}: {reply.error_name}: {why}")
    return reply.body


async def names_on_bus() -> frozenset[str]:
    """The names on the bus; empty without a bus."""
    try:
        async with system_bus() as bus:
            [names] = await call(
                bus, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ListNames"
            )
            return frozenset(names)
    except OSError:
        return frozenset()
