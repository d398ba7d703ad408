"""A transaction on the driver's own connection: for what a person waits for.

There, a session's work for a statement takes several times what the driver's and Postgres's does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

from asyncpg import InternalClientError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import greenlet_spawn

from culvert_db.engine import Database


class Driver(Protocol):
    """The methods used of asyncpg.Connection."""

    async def execute(self, query: str, *args: object) -> str: ...
    async def fetch(self, query: str, *args: object) -> list[Any]: ...
    def is_in_transaction(self) -> bool: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


class Direct:
    """Statements run in it (`Statement`). It ends without effect unless it is committed."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._last: list[tuple[str, Sequence[object]]] = []

    def last(self, query: str, values: Sequence[object]) -> None:
        """Runs it as the last thing before the commit, in the order of these calls."""
        self._last.append((query, values))

    async def commit(self) -> None:
        for query, values in self._last:
            await self.driver.execute(query, *values)
        # Postgres ends a transaction in which a statement has failed without an error.
        if await self.driver.execute("COMMIT") != "COMMIT":
            raise RuntimeError("a transaction that has failed cannot be committed")


@asynccontextmanager
async def direct(database: Database) -> AsyncGenerator[Direct]:
    """Begun, on a connection of the database's pool. Raises asyncpg's errors, or the pool's when it has no connection."""
    engine = cast("AsyncEngine", database.kw["bind"])
    pooled = await engine.raw_connection()
    driver = cast("Driver", pooled.driver_connection)
    try:
        await driver.execute("BEGIN")
        yield Direct(driver)
    except InternalClientError:
        # A server that ends says so first: until the connection is lost, too, nothing can be asked through it.
        driver.terminate()
        raise
    finally:
        try:
            if not driver.is_closed() and driver.is_in_transaction():
                await driver.execute("ROLLBACK")
        except BaseException:
            driver.terminate()
            raise
        finally:
            if driver.is_closed():
                pooled.invalidate()
            else:
                # The pool closes a connection beyond its size, which takes a round trip.
                await greenlet_spawn(pooled.close)
