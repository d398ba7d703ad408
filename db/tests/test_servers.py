"""Postgres as operators run it: primaries that become standbys, servers that do not answer, and PgBouncer before them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from culvert_db import READ_ONLY, UnfitDatabaseError, check, create_engine, parse_url, sqlstate, upgrade
from postgres_servers import PGBOUNCER, RELEASES, Server, pair, pgbouncer, switch_over
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

pytestmark = pytest.mark.slow

needs_pgbouncer = pytest.mark.skipif(PGBOUNCER is None, reason="needs PgBouncer")
_WRITE = text("INSERT INTO written DEFAULT VALUES")


@asynccontextmanager
async def using(url: str, *, pooled: bool = False) -> AsyncGenerator[AsyncEngine]:
    engine = create_engine(url, pool_size=2, pooled=pooled)
    yield engine
    await engine.dispose()


async def write(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        # Without the lock, two connections at once would create the table twice.
        await connection.execute(text("SELECT pg_advisory_xact_lock(1)"))
        await connection.execute(text("CREATE TABLE IF NOT EXISTS written (id serial)"))
        await connection.execute(_WRITE)


async def until_written(engine: AsyncEngine) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                return await write(engine)
            except (DBAPIError, OSError):
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("programs", RELEASES, ids=lambda it: it.parent.name)
async def test_only_a_server_that_takes_writes_is_used(tmp_path: Path, programs: Path) -> None:
    async with pair(tmp_path, programs) as (first, second):
        both = f"postgresql://culvert@127.0.0.1:{first.port},127.0.0.1:{second.port}/postgres"
        async with using(both) as engine, using(first.url()) as alone, using(second.url()) as of_second:
            await write(engine)
            await write(alone)
            with pytest.raises(DBAPIError) as standby:
                await write(of_second)
            assert sqlstate(standby.value) == READ_ONLY
            await switch_over(first, second)
            await until_written(engine)
            await until_written(of_second)
            async with engine.connect() as connection:
                assert await connection.scalar(text("SELECT inet_server_port()")) == second.port
            # A standby answers each read, however old its data is.
            with pytest.raises(DBAPIError) as standby:
                async with alone.connect():
                    pass
            assert sqlstate(standby.value) == READ_ONLY


async def test_a_connection_whose_server_takes_no_writes_any_more_is_replaced(tmp_path: Path) -> None:
    server = Server(tmp_path, RELEASES[-1])
    await server.make()
    await server.start()
    try:
        async with using(server.url()) as engine, using(server.url()) as operator:
            await write(engine)
            await _everywhere(operator, "ALTER SYSTEM SET default_transaction_read_only = on")
            # First the connection of the pool is refused its write, then the new one.
            assert [await refusal(engine), await refusal(engine)] == [READ_ONLY, READ_ONLY]
            await _everywhere(operator, "ALTER SYSTEM RESET default_transaction_read_only")
            await until_written(engine)
    finally:
        await server.stop()


async def refusal(engine: AsyncEngine) -> str:
    """Returns the SQLSTATE of the first refused write. A setting takes effect a moment after its reload."""
    while True:
        try:
            await write(engine)
        except DBAPIError as error:
            return sqlstate(error)


async def _everywhere(engine: AsyncEngine, setting: str) -> None:
    async with engine.connect() as connection:
        alone = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await alone.execute(text(setting))
        await alone.execute(text("SELECT pg_reload_conf()"))


async def test_a_server_that_does_not_answer_keeps_none_from_the_next(tmp_path: Path) -> None:
    server = Server(tmp_path, RELEASES[-1])
    await server.make()
    await server.start()
    try:
        # A server that accepts the connection and stays silent, as a stopped virtual machine's proxy does.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent_port = silent.getsockname()[1]
            url = f"postgresql://culvert@127.0.0.1:{silent_port},127.0.0.1:{server.port}/postgres"
            async with using(url) as engine, engine.connect(), engine.connect() as second:
                assert await second.scalar(text("SELECT inet_server_port()")) == server.port
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("given", "hosts", "ports"),
    [
        ("u@a:1,b:2/d?target_session_attrs=read-write", "a,b", "1,2"),
        ("u:p/w@a,b/d", "a,b", "5432,5432"),
        ("u@/d?host=a:1&host=b", "a,b", "1,5432"),
        ("u@/d?host=a,b&port=5", "a,b", "5,5"),
        ("u@[2001:db8::1]:1,192.0.2.1/d", "2001:db8::1,192.0.2.1", "1,5432"),
    ],
)
def test_several_servers_are_named_as_for_libpq(given: str, hosts: str, ports: str) -> None:
    url = parse_url(f"postgresql://{given}")
    assert (url.query["host"], url.query["port"], url.database) == (hosts, ports, "d")
    assert parse_url(url.render_as_string(hide_password=False)) == url
    create_engine(f"postgresql://{given}")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("u@a:1,b:x/d", "a host, and a port or none"),
        ("u@/d?host=a,b&port=1,2,3", "a host, and a port or none"),
        ("u@a/d?target_session_attrs=standby", "takes no writes"),
    ],
)
def test_an_impossible_server_list_is_refused(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_url(f"postgresql://{given}")


@asynccontextmanager
async def running(folder: Path, programs: Path, *options: str) -> AsyncGenerator[Server]:
    server = Server(folder / "server", programs)
    await server.make(*options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@needs_pgbouncer
@pytest.mark.parametrize("programs", RELEASES, ids=lambda it: it.parent.name)
async def test_a_pooler_of_sessions_is_a_server_as_any_other(tmp_path: Path, programs: Path) -> None:
    async with (
        running(tmp_path, programs, "--encoding=UTF8") as server,
        pgbouncer(tmp_path / "pooler", server, "session") as port,
    ):
        url = f"postgresql://culvert@127.0.0.1:{port}/postgres"
        async with using(url, pooled=True) as engine:
            await check(engine)
        async with using(url) as engine:
            await upgrade(engine)
            for _ in range(3):
                await write(engine)


@needs_pgbouncer
@pytest.mark.parametrize("programs", RELEASES, ids=lambda it: it.parent.name)
async def test_a_pooler_of_transactions_is_found_out_and_can_be_used(tmp_path: Path, programs: Path) -> None:
    async with (
        running(tmp_path, programs, "--encoding=UTF8") as server,
        pgbouncer(tmp_path / "pooler", server, "transaction", default_pool_size=3) as port,
    ):
        url = f"postgresql://culvert@127.0.0.1:{port}/postgres"
        async with using(server.url()) as engine:
            await upgrade(engine)
        async with using(url, pooled=True) as one, using(url, pooled=True) as other:
            with pytest.raises(
                UnfitDatabaseError, match=r"pool_mode=transaction.* Remedy: name the server itself"
            ):
                await check(one)

            async def often(engine: AsyncEngine) -> None:
                for _ in range(100):
                    await write(engine)

            # More clients than sessions, which go from client to client.
            await asyncio.gather(*(often(engine) for engine in (one, other) for _ in range(4)))
            async with one.connect() as connection:
                assert await connection.scalar(text("SELECT count(*) FROM written")) == 800


@needs_pgbouncer
async def test_a_pooler_whose_server_became_a_standby_is_left(tmp_path: Path) -> None:
    """Each server has a pooler beside it, which keeps its clients through the switchover."""
    async with (
        pair(tmp_path, RELEASES[0]) as (first, second),
        pgbouncer(tmp_path / "one", first, "transaction", server_login_retry=0) as one,
        pgbouncer(tmp_path / "two", second, "transaction", server_login_retry=0) as two,
        using(f"postgresql://culvert@127.0.0.1:{one},127.0.0.1:{two}/postgres", pooled=True) as engine,
    ):
        await write(engine)
        await switch_over(first, second)
        await until_written(engine)
        async with engine.connect() as connection:
            assert await connection.scalar(text("SELECT inet_server_port()")) == second.port


async def test_a_database_that_cannot_hold_every_name_is_refused(tmp_path: Path) -> None:
    async with (
        running(tmp_path, RELEASES[-1], "--encoding=SQL_ASCII", "--locale=C") as server,
        using(server.url(), pooled=True) as engine,
    ):
        with pytest.raises(UnfitDatabaseError, match=r"SQL_ASCII.* Remedy: CREATE DATABASE"):
            await check(engine)
