"""Transactions that run compiled statements: in a mapper's session, or on the driver's own connection.

A session takes several times as long for a statement as driver and Postgres, so calls that a person waits for use the
driver's connection.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

from asyncpg import InternalClientError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.util import greenlet_spawn

from culvert_db.engine import Database
from culvert_db.statement import Statement

# Our tunable. Statements on the driver's connection take milliseconds; a Postgres that is frozen answers none, and its
# kernel goes on acknowledging what it is sent.
SILENT_SECONDS = 3.0
# Our tunables. A statement can wait twice for a row: for its turn among those that wait, and for the transaction that
# holds the row. Both together are shorter than SILENT_SECONDS.
_LOCK_SECONDS = 1.4
# A transaction waits for a gateway's answer, which takes a second or two. A controller that is stopped, or whose host is
# cut off, would hold its rows for ever.
_IDLE_SECONDS = 5
# One round trip. SET LOCAL ends with the transaction, so that it needs no session of its own behind a pooler.
_BEGIN = (
    f"BEGIN; SET LOCAL lock_timeout = '{_LOCK_SECONDS * 1000:.0f}ms';"
    f" SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'"
)


class SilentServerError(ConnectionError):
    """Postgres has not answered a statement within SILENT_SECONDS. A commit may or may not have happened."""


class Driver(Protocol):
    """The methods used of asyncpg.Connection."""

    async def execute(self, query: str, *args: object) -> str: ...
    async def fetch(self, query: str, *args: object) -> list[Any]: ...
    def is_in_transaction(self) -> bool: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


class Statements(ABC):
    """A transaction that runs compiled statements. Each method raises KeyError for a missing value."""

    @abstractmethod
    async def run(self, statement: Statement, **values: object) -> None:
        """Run a statement that returns nothing."""

    @abstractmethod
    async def run_all(self, statement: Statement, rows: Sequence[Mapping[str, object]]) -> None:
        """Run the statement once for each row of values."""

    @abstractmethod
    async def rows(self, statement: Statement, **values: object) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def commit(self) -> None: ...

    async def row(self, statement: Statement, **values: object) -> tuple[Any, ...] | None:
        """The only row, if any."""
        found = await self.rows(statement, **values)
        assert len(found) <= 1
        return found[0] if found else None


class InSession(Statements):
    """Runs statements in the transaction of a mapper's session."""

    def __init__(self, session: AsyncSession) -> None:
        self.session = session

    async def run(self, statement: Statement, **values: object) -> None:
        await self.run_all(statement, [values])

    async def run_all(self, statement: Statement, rows: Sequence[Mapping[str, object]]) -> None:
        positions = [statement.positions(row) for row in rows]
        connection = await self.session.connection()
        await connection.exec_driver_sql(statement.text, positions if len(positions) > 1 else positions[0])

    async def rows(self, statement: Statement, **values: object) -> list[tuple[Any, ...]]:
        connection = await self.session.connection()
        found = await connection.exec_driver_sql(statement.text, statement.positions(values))
        return [tuple(row) for row in found]

    async def commit(self) -> None:
        await self.session.commit()


class Direct(Statements):
    """Runs statements on the driver's connection. The transaction is rolled back unless it is committed.

    Each statement raises SilentServerError where Postgres does not answer.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    async def execute(self, text: str, *values: object) -> str:
        """Postgres's command tag."""
        async with self._within():
            return await self.driver.execute(text, *values)

    async def run(self, statement: Statement, **values: object) -> None:
        await self.execute(statement.text, *statement.positions(values))

    async def run_all(self, statement: Statement, rows: Sequence[Mapping[str, object]]) -> None:
        for row in rows:
            await self.run(statement, **row)

    async def rows(self, statement: Statement, **values: object) -> list[tuple[Any, ...]]:
        async with self._within():
            return await self.driver.fetch(statement.text, *statement.positions(values))

    async def commit(self) -> None:
        # After a failed statement, Postgres answers COMMIT with ROLLBACK instead of an error.
        if await self.execute("COMMIT") != "COMMIT":
            raise RuntimeError("a transaction that has failed cannot be committed")

    @asynccontextmanager
    async def _within(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                yield
        except TimeoutError as error:
            # The driver would wait for the end of the cancelled statement before it runs the next one.
            self.driver.terminate()
            raise SilentServerError(f"Postgres has not answered within {SILENT_SECONDS:.0f} s") from error


@asynccontextmanager
async def direct(database: Database) -> AsyncGenerator[Direct]:
    """Begin a transaction on a connection of the pool. Raises asyncpg's errors, or the pool's if none is free.

    A statement fails when another transaction has held its row for longer than `lock_timeout`: see `is_held`.
    """
    engine = cast("AsyncEngine", database.kw["bind"])
    pooled = await engine.raw_connection()
    driver = cast("Driver", pooled.driver_connection)
    transaction = Direct(driver)
    try:
        await transaction.execute(_BEGIN)
        yield transaction
    except InternalClientError:
        # A server that shuts down announces it before it closes the connection, which is unusable from then on.
        driver.terminate()
        raise
    finally:
        try:
            if not driver.is_closed() and driver.is_in_transaction():
                await transaction.execute("ROLLBACK")
        except BaseException:
            driver.terminate()
            raise
        finally:
            if driver.is_closed():
                pooled.invalidate()
            else:
                # In a greenlet, because the pool may close a connection beyond its size, which takes a round trip.
                await greenlet_spawn(pooled.close)
