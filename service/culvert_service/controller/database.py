"""The database of a controller or a command: the one in the settings, or the embedded Postgres."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from culvert_db import (
    Database,
    UnfitDatabaseError,
    bind_database,
    check,
    dns_role,
    hears,
    installation,
    upgrade_apart,
)
from culvert_db.embedded import EmbeddedPostgres
from sqlalchemy.ext.asyncio import AsyncEngine

from culvert_service import private_files
from culvert_service.config import ConfigurationError, Settings
from culvert_service.database import connect
from culvert_service.pki.master_key import MasterKey

_log = logging.getLogger(__name__)

# The pool's size; it may grow to twice this.
_DIRECT_CONNECTIONS = 2


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncGenerator[Database]:
    """Open and migrate the database. Writes state_dir/database-url for dns-updater, which has its own database role."""
    settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        url = settings.database_sessions_url
        if url is not None:
            await _check(url, settings)
        else:
            url = await stack.enter_async_context(EmbeddedPostgres(settings.state_dir / "postgres"))
        engine = make_engine(url, settings.sessions_setting)
        stack.push_async_callback(engine.dispose)
        await _migrate(settings, engine)
        await _hand_over(settings.state_dir, engine, url)
        if settings.database_direct_url is not None and settings.database_url is not None:
            await engine.dispose()
            engine = make_engine(settings.database_url.get_secret_value(), pooled=True)
            stack.push_async_callback(engine.dispose)
        yield bind_database(engine)


@asynccontextmanager
async def open_for_reading(settings: Settings) -> AsyncGenerator[Database]:
    """The database without a migration; a controller may be running on it. Raises ConfigurationError."""
    async with AsyncExitStack() as stack:
        if settings.database_sessions_url is not None:
            engine = make_engine(settings.database_sessions_url, settings.sessions_setting)
        else:
            embedded = EmbeddedPostgres(settings.state_dir / "postgres")
            if not embedded.exists:
                raise ConfigurationError(f"state_dir: {settings.state_dir} holds no database")
            if not embedded.serves:
                await stack.enter_async_context(embedded)
            engine = make_engine(embedded.url)
        stack.push_async_callback(engine.dispose)
        yield bind_database(engine)


@asynccontextmanager
async def open_for_changes(settings: Settings) -> AsyncGenerator[Database]:
    """The database for changes; created and migrated unless a controller already runs on it."""
    embedded = EmbeddedPostgres(settings.state_dir / "postgres")
    running = settings.database_url is None and embedded.exists and embedded.serves
    async with open_for_reading(settings) if running else open_database(settings) as database:
        yield database


async def migrate(settings: Settings) -> None:
    async with open_database(settings):
        _log.info("migrated")


class DirectConnections:
    """Connections to the server itself instead of a pooler: for LISTEN, and for reading desired states. Without
    `database_direct_url` all connections lead to the server, and `database` is the common pool.
    """

    def __init__(self, settings: Settings, database: Database) -> None:
        url = settings.database_direct_url
        self._engine = (
            None if url is None else make_engine(url.get_secret_value(), pool_size=_DIRECT_CONNECTIONS)
        )
        self.database = database if self._engine is None else bind_database(self._engine)

    async def start(self) -> None:
        """Nothing to do: connections are opened on demand."""

    async def stop(self) -> None:
        if self._engine is not None:
            await self._engine.dispose()


def make_engine(
    url: str, setting: str = "database_url", *, pool_size: int = 20, pooled: bool = False
) -> AsyncEngine:
    """Raises ConfigurationError."""
    try:
        return connect(url, pool_size=pool_size, pooled=pooled)
    except ValueError as error:
        raise ConfigurationError(f"{setting}: {error}") from None


async def _check(url: str, settings: Settings) -> None:
    """Check the database before anything is written. Raises ConfigurationError."""
    async with AsyncExitStack() as stack:
        engine = make_engine(url, settings.sessions_setting, pooled=True)
        stack.push_async_callback(engine.dispose)
        try:
            await check(engine)
        except UnfitDatabaseError as error:
            raise ConfigurationError(f"{settings.sessions_setting}: {error}") from None
        if settings.database_direct_url is not None and settings.database_url is not None:
            pooled = make_engine(settings.database_url.get_secret_value(), pooled=True)
            stack.push_async_callback(pooled.dispose)
            if not await hears(engine, pooled):
                raise ConfigurationError("database_url and database_direct_url lead to different databases")


async def _migrate(settings: Settings, engine: AsyncEngine) -> None:
    """Raises ConfigurationError for another Culvert's database, which stays as it is."""
    me = MasterKey.load(settings.state_dir).installation
    try:
        await installation.check_owner(engine, me)
        await upgrade_apart(engine)
        await installation.claim(engine, me)
    except installation.OtherCulvertError as error:
        raise ConfigurationError(f"{settings.sessions_setting}: {error}") from None


async def _hand_over(state: Path, engine: AsyncEngine, url: str) -> None:
    """Create dns-updater's role and write its database URL. If that fails, delete an old URL: it may be the owner's."""
    file = state / "database-url"
    try:
        own = await dns_role.prepare(engine, url, MasterKey.load(state).password("dns-updater"))
    except dns_role.RoleRefusedError as error:
        file.unlink(missing_ok=True)
        _log.error("%s is not written: %s. Or give dns-updater a database URL yourself", file, error)
    else:
        private_files.write(file, own.encode() + b"\n")
