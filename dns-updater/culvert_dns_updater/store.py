"""The database as this part sees it: resources in, the state of each record out, and word of changes. All SQL is here."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncGenerator, Callable
from typing import Protocol, cast

from asyncpg import InterfaceError, PostgresError
from culvert_db import RESOURCES_CHANNEL, DnsRecord, DnsState, Resource, create_engine, create_sessions
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from culvert_dns_updater.records import Address
from culvert_dns_updater.zone import RecordState, State, States


class StoreError(Exception):
    """The database does not answer, or has no tables yet. The text names the kind of fault and no parameter."""


class _DriverConnection(Protocol):
    """What we use of asyncpg.Connection, which has no type stubs."""

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...


class Store:
    def __init__(self, database_url: str) -> None:
        self._engine = create_engine(database_url, pool_size=2)
        self._sessions = create_sessions(self._engine)

    async def close(self) -> None:
        await self._engine.dispose()

    async def resources(self) -> list[tuple[str, Address]]:
        """(fqdn, address) of each resource. Raises StoreError."""
        async with _faults(), self._sessions() as session:
            rows = await session.execute(select(Resource.fqdn, Resource.address))
            return [(fqdn, ipaddress.ip_interface(address).ip) for fqdn, address in rows]

    async def known(self, zone: str) -> list[tuple[str, str]]:
        """(name, type) of each record whose state is on file. Raises StoreError."""
        async with _faults(), self._sessions() as session:
            rows = await session.execute(select(DnsRecord.name, DnsRecord.type).where(DnsRecord.zone == zone))
            return [(name, rtype) for name, rtype in rows]

    async def record(self, zone: str, states: States) -> None:
        """Make the zone's rows equal to `states`; rows that are right already stay untouched. Raises StoreError."""
        async with _faults(), self._sessions.begin() as session:
            rows = (await session.scalars(select(DnsRecord).where(DnsRecord.zone == zone))).all()
            present = {(row.name, row.type): row for row in rows}
            for gone in present.keys() - states.keys():
                await session.delete(present[gone])
            for (name, rtype), state in states.items():
                row = present.get((name, rtype))
                if row is None:
                    row = DnsRecord(name=name, zone=zone, type=rtype, attempts=0)
                    session.add(row)
                _write(row, state)

    @contextlib.asynccontextmanager
    async def changes(self, told: Callable[[], None]) -> AsyncGenerator[asyncio.Event]:
        """While open, `told` is called after each change of the resources. The event is set when the connection is lost.

        Raises StoreError.
        """
        lost = asyncio.Event()
        async with _faults(), self._engine.connect() as connection:
            driver = cast(_DriverConnection, (await connection.get_raw_connection()).driver_connection)
            try:
                driver.add_termination_listener(lambda *_: lost.set())
                await driver.add_listener(RESOURCES_CHANNEL, lambda *_: told())
                yield lost
            finally:
                # The connection carries our listener: it must not go back to the pool.
                await connection.invalidate()


def _write(row: DnsRecord, state: RecordState) -> None:
    row.state = DnsState(state.state.value)
    row.attempts = 0 if state.state is State.LIVE else (row.attempts or 0) + 1
    error = state.error
    row.reason = None if error is None else error.reason.name
    row.message = None if error is None else error.message
    row.remedy = None if error is None else error.remedy


@contextlib.asynccontextmanager
async def _faults() -> AsyncGenerator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        cause = cast(BaseException | None, getattr(error, "orig", None))
        raise StoreError(f"the database refused: {type(cause or error).__name__}") from error
    except (InterfaceError, PostgresError) as error:
        # From the driver itself: the pool handed out a connection that had died.
        raise StoreError(f"the database refused: {type(error).__name__}") from error
    except (OSError, TimeoutError) as error:
        raise StoreError(
            f"the database cannot be reached: {error.strerror or type(error).__name__}"
        ) from error
