"""The process: its parts started forwards, and stopped backwards.

part 1 ─► part 2 ─► … ─► the ports ─► ready ─► SIGTERM ─► the ports ─► … ─► part 2 ─► part 1
             └ its start fails ─► part 2 ─► part 1, stopped
"""

from __future__ import annotations

import asyncio
import datetime
import gc
import logging
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from culvert_db import Database
from culvert_proto import service_manager
from culvert_proto.private_memory import warn_if_not_locked
from culvert_proto.stored_text import read_catalogues

from culvert_service import servers
from culvert_service.config import Settings
from culvert_service.controller.build import Runs, build
from culvert_service.controller.database import open_database

_log = logging.getLogger(__name__)

# Threads compute thousands of tunnels and entries. The event loop gets the interpreter back after this time instead of
# Python's 5 ms, because an OpenTunnel waits for it about ten times.
_THREAD_TURN_SECONDS = 0.0005
# Thresholds of Python's collector of cycles: new objects before a young collection, and young collections before an older
# one. With Python's 700 and 10, objects that a click holds for milliseconds grow old, and all streams are searched.
_GARBAGE = (2_000, 50)

# A part that does not stop in this time is abandoned and logged, before systemd kills the whole process.
_STOP_SECONDS = 15.0


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Controller:
    """`async with Controller(settings, database)`: serves from its entry to its exit."""

    def __init__(self, settings: Settings, database: Database) -> None:
        built = build(settings, database, now)
        self.app = built.app
        self.gateways = built.gateways
        self._parts = built.parts
        self._settings = settings
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Controller:
        # Beside the start, so that the first answer in another language waits for no catalogue.
        reading = asyncio.get_running_loop().run_in_executor(None, read_catalogues)
        await self._stack.enter_async_context(run_parts(self._parts))
        await reading
        _log.info("ready", extra={"rest": self._settings.rest_url, "agent": self._settings.agent_address})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def openapi(self) -> dict[str, Any]:
        """The REST API's OpenAPI document."""
        return self.app.openapi()


@asynccontextmanager
async def run_parts(parts: Sequence[Runs]) -> AsyncGenerator[None]:
    """Start the parts in order; stop them in reverse order at the end, or from the part whose start fails."""
    async with AsyncExitStack() as stack:
        for part in parts:
            stack.push_async_callback(_stop, part)
            await part.start()
        yield


async def serve(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM."""
    warn_if_not_locked()
    sys.setswitchinterval(_THREAD_TURN_SECONDS)
    servers.raise_file_limit()
    gc.set_threshold(*_GARBAGE)
    # Imported modules live as long as the process: exclude them from collections.
    gc.freeze()
    await until_signal(_process(settings))
    _log.info("stopped")


async def until_signal(process: AbstractAsyncContextManager[object]) -> None:
    """Enter the process, and leave it at SIGINT or SIGTERM. A signal in its start cancels the start."""
    signalled, starting = asyncio.Event(), asyncio.current_task()

    def end() -> None:
        if starting is not None and not signalled.is_set():
            starting.cancel()
        signalled.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end)
    try:
        async with process:
            starting = None
            await signalled.wait()
    except asyncio.CancelledError:
        if not signalled.is_set():
            raise


@asynccontextmanager
async def _process(settings: Settings) -> AsyncGenerator[None]:
    async with open_database(settings) as database, Controller(settings, database):
        service_manager.tell_ready()
        yield


async def _stop(part: Runs) -> None:
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await part.stop()
    except TimeoutError:
        _log.error("a part did not stop in %.0f s: %s", _STOP_SECONDS, type(part).__name__)
