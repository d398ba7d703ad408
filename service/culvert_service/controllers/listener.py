"""Receives notifications of Postgres (LISTEN) on a connection of its own, which is reopened when it is lost.

Notifications are lost only with their connection, so each hearer is called once after each new connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

from asyncpg import InterfaceError, PostgresError
from culvert_db import Database, why_away
from sqlalchemy.exc import SQLAlchemyError

_log = logging.getLogger(__name__)

_AGAIN_SECONDS = 0.5
_CONNECT_SECONDS = 10.0
# A query detects a dead connection.
_ASK_EVERY_SECONDS = 2.0
_ASK_SECONDS = 2.0
_FAULTS = (SQLAlchemyError, PostgresError, InterfaceError, OSError, TimeoutError)


class Hearer(Protocol):
    """Receives the notifications of one channel."""

    @property
    def channel(self) -> str: ...

    def hear(self, payload: str | None, /) -> None:
        """`payload` is None when notifications may have been lost."""
        ...


class _DriverConnection(Protocol):
    """The methods used of asyncpg.Connection, which has no type stubs."""

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    async def fetchval(self, query: str) -> Any: ...
    def terminate(self) -> None: ...


class Listener:
    def __init__(self, database: Database, hearers: Sequence[Hearer]) -> None:
        self._database = database
        self._hearers = hearers
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns once it listens. Raises database errors."""
        ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(ready), name="listener")
        await ready

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, ready: asyncio.Future[None]) -> None:
        told = ""
        while True:
            try:
                async with self._listen() as connection:
                    if told:
                        _log.info("database notifications arrive again")
                    told = ""
                    if not ready.done():
                        ready.set_result(None)
                    for hearer in self._hearers:
                        hearer.hear(None)
                    while True:
                        await asyncio.sleep(_ASK_EVERY_SECONDS)
                        async with asyncio.timeout(_ASK_SECONDS):
                            await connection.fetchval("SELECT 1")
            except Exception as error:
                if not ready.done():
                    ready.set_exception(error)
                    return
                # Any failure must lead to a new connection: without one, no notification arrives.
                unforeseen = None if isinstance(error, _FAULTS) else error
                why = why_away(error) or type(error).__name__
                if why != told:
                    _log.warning("no database notifications arrive", exc_info=unforeseen, extra={"why": why})
                told = why
                await asyncio.sleep(_AGAIN_SECONDS)

    @asynccontextmanager
    async def _listen(self) -> AsyncGenerator[_DriverConnection]:
        async with self._database() as session:
            async with asyncio.timeout(_CONNECT_SECONDS):
                connection = await session.connection()
                raw = await connection.get_raw_connection()
            driver = cast(_DriverConnection, raw.driver_connection)
            # The connection carries our listeners: it must not go back to the pool.
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    # Postgres delivers no notifications within the transaction that SQLAlchemy has begun.
                    await connection.commit()
                    for hearer in self._hearers:
                        await driver.add_listener(hearer.channel, _payload_to(hearer))
                yield driver
            finally:
                # `terminate` does not wait for a server that does not answer.
                driver.terminate()
                with contextlib.suppress(*_FAULTS):
                    await connection.invalidate()


def _payload_to(hearer: Hearer) -> Callable[..., None]:
    def on_notification(_connection: object, _pid: int, _channel: str, payload: str) -> None:
        hearer.hear(payload)

    return on_notification
