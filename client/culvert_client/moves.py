"""Tells when this computer is somewhere else: another default route, or another address on its device (rtnetlink(7)); or
has slept, and may be anywhere (clock_gettime(2)).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from culvert_proto import CulvertError

from culvert_client.platform.linux.networks import Uplinks, uplinks

# linux/rtnetlink.h: links; IPv4 addresses, routes and rules; IPv6 addresses, routes and rules.
_GROUPS = 0x1 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | 0x40000
# Our tunables, in seconds: a move is many changes within a moment, and the second nudge is for a first one that was lost;
# a shorter sleep is none.
SETTLED = 0.03
AGAIN = 0.5
LOOK_EVERY = 2.0
SLEPT = 5.0

log = logging.getLogger(__name__)


def slept() -> float:
    """Seconds that this computer has slept since it started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class Sleep:
    """Tells once of each sleep of this computer. `slept` as the function above."""

    def __init__(self, slept: Callable[[], float] = slept) -> None:
        self._slept, self._known = slept, slept()

    @property
    def is_news(self) -> bool:
        return self._slept() - self._known >= SLEPT

    def take(self) -> float:
        """The length of the sleep in seconds; 0 when there is none to report."""
        before, self._known = self._known, self._slept()
        return slept if (slept := self._known - before) >= SLEPT else 0.0


async def follow(
    moved: Callable[[], Awaitable[None]],
    reconnect: Callable[[], None],
    slept: Callable[[], float] = slept,
    changed_here: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """For ever: after each move and each sleep `reconnect` is called, then `moved`, twice; `changed_here` first, after each
    change of this computer's devices, addresses, routes and rules. Raises OSError."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
    ) as events:
        events.bind((0, _GROUPS))

        def heard() -> None:
            # The others of this moment are left lying until it is over: they may be of a tunnel that somebody waits for.
            loop.remove_reader(events)
            changed.set()

        loop.add_reader(events, heard)
        try:
            here, asleep = await asyncio.to_thread(uplinks), slept()
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY):
                        await changed.wait()
                woke = slept() - asleep >= SLEPT
                if not woke and not changed.is_set():
                    continue
                asleep = slept()
                await asyncio.sleep(SETTLED)
                changed.clear()
                _drain(events)
                loop.add_reader(events, heard)
                now = await asyncio.to_thread(uplinks)
                if changed_here is not None:
                    await changed_here()
                # Our own routes and addresses change nothing of it.
                if now != Uplinks() and (woke or now != here):
                    log.info("this computer has slept" if woke else "the network has changed")
                    reconnect()
                    for pause in (AGAIN, 0.0):
                        with suppress(CulvertError):
                            await moved()
                        await asyncio.sleep(pause)
                here = now
        finally:
            loop.remove_reader(events)


def _drain(events: socket.socket) -> None:
    while True:
        try:
            events.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError as error:
            # Some were lost; that there were some is all that counts.
            log.debug("network changes: %s", error)
