"""Detects moves to another network: another default route, or another address on its device; and sleeps, after which the
computer may be anywhere.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from culvert_proto import CulvertError

from culvert_client.core.claims import Surroundings
from culvert_client.platform.interfaces import Networks, Uplinks

# Our tunables, in seconds: the quiet time that ends a move's changes, the delay of the second notification (the first may
# be lost), the interval of checks, and the shortest sleep.
SETTLED = 0.03
AGAIN = 0.5
LOOK_EVERY = 2.0
SLEPT = 5.0
# Our tunable, in seconds: resolving the controller's address must not delay the profile for longer.
LOOK_UP_PATIENCE = 2.0

log = logging.getLogger(__name__)


class Sleep:
    """Reports each sleep of this computer once. `slept`: as of Process."""

    def __init__(self, slept: Callable[[], float]) -> None:
        self._slept, self._known = slept, slept()

    @property
    def is_news(self) -> bool:
        return self._slept() - self._known >= SLEPT

    def take(self) -> float:
        """The seconds slept since the last call; 0 without a sleep."""
        before, self._known = self._known, self._slept()
        return slept if (slept := self._known - before) >= SLEPT else 0.0


async def follow(
    networks: Networks,
    slept: Callable[[], float],
    moved: Callable[[], Awaitable[None]],
    reconnect: Callable[[], None],
    changed_here: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run for ever. After each change of devices, addresses, routes or rules, call `changed_here`; then, after a move or
    sleep, `reconnect`, and twice `moved`. `slept`: as of Process. Raises OSError."""
    with networks.changes() as changes:
        here, asleep = await asyncio.to_thread(networks.uplinks), slept()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await changes.wait()
            woke = slept() - asleep >= SLEPT
            if not woke and not changes.is_set:
                continue
            asleep = slept()
            await asyncio.sleep(SETTLED)
            changes.take()
            now = await asyncio.to_thread(networks.uplinks)
            if changed_here is not None:
                await changed_here()
            # Culvert's own routes and addresses are no move.
            if now != Uplinks() and (woke or now != here):
                log.info("this computer has slept" if woke else "the network has changed")
                reconnect()
                for pause in (AGAIN, 0.0):
                    with suppress(CulvertError):
                        await moved()
                    await asyncio.sleep(pause)
            here = now


async def surroundings(uplinks: Callable[[], Uplinks], controller: str) -> Surroundings:
    """The networks and hosts that no tunnel may take away; unknown ones are left out.

    `uplinks` as Networks; `controller` is "host:port".
    """
    own = await asyncio.to_thread(uplinks)
    # No controller can claim link-local addresses anyway.
    networks = frozenset(it.network for _, it in own.addresses if not it.is_link_local)
    found: list[Any] = []
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(LOOK_UP_PATIENCE):
            host = controller.rpartition(":")[0].strip("[]")
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return Surroundings(networks, frozenset(ip_address(it[4][0]) for it in found))
