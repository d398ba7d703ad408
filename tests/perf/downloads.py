"""A download without an end from the intranet to the laptop, and when each part came: the laptop itself only listens."""

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

PORT = 9998
# Bytes, each a millisecond after the last: far below what the tunnel carries.
PART = 1000
EVERY_SECONDS = 0.001
PATIENCE = 20.0


@dataclass(slots=True)
class Download:
    """`arrived` by time.perf_counter, `whole` once it has ended: whether every byte sent has come, in order."""

    arrived: list[float] = field(default_factory=list[float])
    sent: int = 0
    received: int = 0

    @property
    def whole(self) -> bool:
        return 0 < self.sent == self.received

    async def first_after(self, moment: float) -> float:
        """When the first part came after it. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            # A thread fills it.
            while not self.arrived or self.arrived[-1] < moment:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return next(at for at in self.arrived if at >= moment)


@asynccontextmanager
async def running(lab: Lab) -> AsyncGenerator[Download]:
    """As long as the context lasts; then what is under way is waited for."""
    found, over, listens = Download(), threading.Event(), threading.Event()
    sending = asyncio.create_task(lab.inside(Site.INTRANET).run(_send, found, over, listens))
    await asyncio.to_thread(listens.wait, PATIENCE)
    receiving = asyncio.create_task(lab.inside(Site.LAPTOP).run(_receive, found))
    try:
        yield found
    finally:
        over.set()
        await asyncio.gather(sending, receiving)


def _send(found: Download, over: threading.Event, listens: threading.Event) -> None:
    with socket.create_server((net.WIKI_ADDRESS, PORT)) as server:
        server.settimeout(PATIENCE)
        listens.set()
        connection, _ = server.accept()
    with connection:
        connection.settimeout(PATIENCE)
        while not over.wait(EVERY_SECONDS):
            with suppress(TimeoutError):
                found.sent += connection.send(bytes(PART))


def _receive(found: Download) -> None:
    with socket.create_connection((net.WIKI_ADDRESS, PORT), PATIENCE) as end:
        end.settimeout(PATIENCE)
        while part := end.recv(1 << 16):
            found.arrived.append(time.perf_counter())
            found.received += len(part)
