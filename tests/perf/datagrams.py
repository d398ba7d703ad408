"""A datagram each millisecond from the laptop to the intranet, and when each arrived: what a moment costs the traffic."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from culvert_lab import topology as net
from culvert_lab.lab import Lab
from culvert_lab.topology import Site

PORT = 9999
EVERY_SECONDS = 0.001
# The packets under way when the sender stops.
REST_SECONDS = 0.2


@dataclass(slots=True)
class Datagrams:
    """For each datagram that arrived: its time, by time.perf_counter, and its source address."""

    arrived: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    async def until_from(self, prefix: str, seconds: float) -> None:
        """Wait for a datagram from an address that starts so. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            # A thread fills it.
            while not any(source.startswith(prefix) for _, source in self.arrived[-100:]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@asynccontextmanager
async def flowing(lab: Lab) -> AsyncGenerator[Datagrams]:
    """As long as the context lasts; what arrived is complete after it."""
    found, over = Datagrams(), threading.Event()
    receiving = asyncio.create_task(lab.inside(Site.INTRANET).run(_receive, found, over))
    sending = asyncio.create_task(lab.inside(Site.LAPTOP).run(_send, over))
    try:
        yield found
    finally:
        over.set()
        await asyncio.gather(sending, receiving)


def _send(over: threading.Event) -> None:
    # Not connected: each datagram takes the source address that the routes say then.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        while not over.wait(EVERY_SECONDS):
            with suppress(OSError):
                end.sendto(b"culvert", (net.WIKI_ADDRESS, PORT))


def _receive(found: Datagrams, over: threading.Event) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.bind((net.WIKI_ADDRESS, PORT))
        end.settimeout(REST_SECONDS)
        while True:
            try:
                _, source = end.recvfrom(64)
            except TimeoutError:
                if over.is_set():
                    return
            else:
                found.arrived.append((time.perf_counter(), source[0]))
