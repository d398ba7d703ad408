"""A server's last word on an idle connection comes before the connection ends: whoever asks in between is told the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from culvert_db import Database, bind_database, clock
from culvert_service.database import DatabaseDownError, connect, direct, repeat
from sqlalchemy import make_url

from .copying import copy

pytestmark = pytest.mark.slow

# "Message Formats" in chapter 55 of Postgres's manual: an ErrorResponse of severity, SQLSTATE and text.
_FIELDS = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to unexpected postmaster exit\0\0"
_LAST_WORD = b"E" + (4 + len(_FIELDS)).to_bytes(4, "big") + _FIELDS


class Relay:
    """Between the controller and its database."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._clients: list[asyncio.StreamWriter] = []
        self._copying: list[asyncio.Task[None]] = []
        self.ended = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server = await asyncio.open_unix_connection(self._socket)
        self._clients.append(writer)
        ways = [asyncio.create_task(copy(*way)) for way in ((reader, server), (server_reader, writer))]
        self._copying += ways
        await asyncio.wait(ways)
        if any(way.cancelled() for way in ways):
            await self.ended.wait()

    def freeze(self) -> None:
        """From now on nothing passes, and nothing ends: as when the server is stopped by a signal."""
        for copying in self._copying:
            copying.cancel()

    async def say(self, message: bytes) -> None:
        for writer in self._clients:
            writer.write(message)
            await writer.drain()


@pytest_asyncio.fixture
async def relayed(database_url: str, tmp_path: Path) -> AsyncGenerator[tuple[Relay, Database]]:
    url = make_url(database_url)
    relay = Relay(Path(str(url.query["host"])) / ".s.PGSQL.5432")
    async with await asyncio.start_unix_server(relay, tmp_path / ".s.PGSQL.5432"):
        engine = connect(f"postgresql://{url.username}@/{url.database}?{urlencode({'host': tmp_path})}")
        yield relay, bind_database(engine)
        await engine.dispose()
        relay.ended.set()


async def _directly(database: Database) -> None:
    async with direct(database) as transaction:
        await transaction.driver.fetch("SELECT 1")


async def _by_a_session(database: Database) -> None:
    async with database() as session:
        await clock(session)


@pytest.mark.parametrize("ask", [_directly, _by_a_session])
async def test_a_statement_after_the_servers_shutdown_raises_database_down(
    relayed: tuple[Relay, Database], ask: Callable[[Database], Awaitable[None]]
) -> None:
    relay, database = relayed
    await ask(database)
    await relay.say(_LAST_WORD)
    await asyncio.sleep(0.1)
    with pytest.raises(DatabaseDownError):
        await ask(database)
    await ask(database)


async def test_a_call_to_a_frozen_server_ends_and_is_not_repeated(relayed: tuple[Relay, Database]) -> None:
    relay, database = relayed
    await _directly(database)
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        await _directly(database)

    relay.freeze()
    async with asyncio.timeout(20):
        with pytest.raises(DatabaseDownError):
            await repeat(ask)
    assert asked == 1


async def _write_where_nothing_is_written(database: Database) -> None:
    async with direct(database) as transaction:
        await transaction.driver.execute("SET TRANSACTION READ ONLY")
        await transaction.driver.execute("CREATE TABLE refused (n int)")


async def test_a_connection_to_a_server_that_takes_no_writes_is_not_kept(
    relayed: tuple[Relay, Database],
) -> None:
    """After a failover, the old connection may lead to the old primary, and a new connection to the new primary."""
    _, database = relayed
    async with direct(database) as transaction:
        before = await transaction.driver.fetch("SELECT pg_backend_pid()")
    with pytest.raises(DatabaseDownError):
        await _write_where_nothing_is_written(database)
    async with direct(database) as transaction:
        assert await transaction.driver.fetch("SELECT pg_backend_pid()") != before
