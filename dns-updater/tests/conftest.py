"""Fixtures: real name servers, a Postgres for the whole run, and a database with Culvert's tables for each test."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from culvert_db import Database, bind_database, create_engine, dns_role, upgrade
from culvert_db.embedded import EmbeddedPostgres
from sqlalchemy import text

from .name_server import Bind, Knot, NameServer, PowerDns
from .world import PASSWORD, World

_MIGRATED = "migrated"
# Postgres's own defence against a computer that stops, which no test does: each commit would wait for the disk, and each
# new database for hundreds of files.
_FOR_POWER_CUTS = ("fsync", "full_page_writes", "synchronous_commit")


@pytest.fixture
def bind(tmp_path: Path) -> Iterator[Bind]:
    server = Bind(tmp_path / "named")
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=[Bind, Knot, PowerDns])
def any_server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NameServer]:
    server: NameServer = request.param(tmp_path / "server")
    server.start()
    yield server
    server.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[str]:
    """A Postgres for the whole run; each test has a copy of a database that is migrated once."""
    async with EmbeddedPostgres(tmp_path_factory.mktemp("pg")) as url:
        engine = create_engine(url).execution_options(isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            for setting in _FOR_POWER_CUTS:
                await connection.execute(text(f"ALTER SYSTEM SET {setting} = off"))
            await connection.execute(text("SELECT pg_reload_conf()"))
            await connection.execute(text(f"CREATE DATABASE {_MIGRATED}"))
        await engine.dispose()
        tables = create_engine(_database(url, _MIGRATED))
        await upgrade(tables)
        await tables.dispose()
        yield url


def _database(cluster: str, name: str) -> str:
    return cluster.replace("/postgres?", f"/{name}?")


@pytest.fixture
async def database_url(cluster: str) -> AsyncGenerator[str]:
    """The owner's database URL. The updater's role has been made."""
    name = f"t{secrets.token_hex(8)}"
    engine = create_engine(cluster).execution_options(isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {_MIGRATED}"))
        url = _database(cluster, name)
        tables = create_engine(url)
        await dns_role.prepare(tables, url, PASSWORD)
        await tables.dispose()
        yield url
        await connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    await engine.dispose()


@pytest.fixture
async def database(database_url: str) -> AsyncGenerator[Database]:
    engine = create_engine(database_url)
    yield bind_database(engine)
    await engine.dispose()


@pytest.fixture
def world(database_url: str, database: Database, tmp_path: Path) -> World:
    return World(database_url, database, tmp_path)
