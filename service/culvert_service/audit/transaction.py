"""A unit of work in the database: its changes and its audit lines commit together, or not at all.

A transaction collects its lines and writes them just before its commit, so that the chain's end is locked only for the
duration of the commit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from culvert_db import Database, Direct, Driver, InSession, Outcome
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service import database as connections
from culvert_service.audit import repository
from culvert_service.audit.log import Actor, Line


class Transaction(InSession):
    """A transaction of `actor` in a mapper's session."""

    def __init__(self, actor: Actor, session: AsyncSession) -> None:
        super().__init__(session)
        self.actor = actor
        self._lines: list[dict[str, Any]] = []
        self._changes = False

    def audit(self, line: Line) -> None:
        """Add a line, which is written if and only if this transaction commits. Its default actor is the transaction's."""
        self._changes = self._changes or line.outcome is Outcome.DONE
        self._lines.append(line.row(self.actor))

    async def write(self) -> None:
        """Write the session's changes and the lines, so that only the commit is left.

        Raises CulvertError IDEMPOTENCY_KEY_BUSY for a request that another one has taken over.
        """
        if not self._lines:
            return
        await self.session.flush()
        if self._changes and self.actor.claim is not None:
            await self.actor.claim.carry_out(self.session)
        lines, self._lines = self._lines, []
        await self.run_all(repository.INSERT, lines)

    async def commit(self) -> None:
        await self.write()
        await super().commit()


class DirectTransaction(Direct):
    """A transaction of `actor` on the driver's own connection, for calls that a person waits for."""

    def __init__(self, actor: Actor, driver: Driver) -> None:
        # Only a REST call has a claim to carry out, and no REST call uses the driver's connection.
        assert actor.claim is None
        super().__init__(driver)
        self.actor = actor
        self._lines: list[dict[str, Any]] = []

    def audit(self, line: Line) -> None:
        """As Transaction.audit."""
        self._lines.append(line.row(self.actor))

    async def commit(self) -> None:
        await self.run_all(repository.INSERT, self._lines)
        await super().commit()


class AfterCommit(Protocol):
    """The work after the commit of a transaction that has closed tunnels."""

    async def finish(self) -> int:
        """After the commit: tell the devices, and clear the gateways. Returns the number of tunnels."""
        ...


@asynccontextmanager
async def begin(database: Database, actor: Actor) -> AsyncGenerator[Transaction]:
    """Begin a transaction that commits at the end of the block, or is rolled back when the block raises."""
    async with database.begin() as session:
        transaction = Transaction(actor, session)
        yield transaction
        await transaction.write()


@asynccontextmanager
async def begin_uncommitted(database: Database, actor: Actor) -> AsyncGenerator[Transaction]:
    """Begin a transaction that ends without effect unless the block commits it."""
    async with database() as session:
        yield Transaction(actor, session)


@asynccontextmanager
async def direct(database: Database, actor: Actor) -> AsyncGenerator[DirectTransaction]:
    """As `begin_uncommitted`, on the driver's own connection. An outage raises DatabaseDownError."""
    async with connections.direct(database) as begun:
        yield DirectTransaction(actor, begun.driver)
