"""Migrates a database to the newest revision, without alembic.ini and without a second driver.

Alembic is imported only for a migration, because it takes 11 MiB.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from culvert_db.engine import create_engine

# An arbitrary number, the same at every controller.
_MIGRATION_LOCK = 4500_50
_SCRIPTS = Path(__file__).parent / "migrations"


class MigrationError(RuntimeError):
    """The migrating process failed; the text is the last line of its output."""


async def upgrade(engine: AsyncEngine) -> None:
    """Run the missing migrations in one transaction; several controllers may start at once."""
    if await _is_behind(engine):
        async with engine.begin() as connection:
            await connection.run_sync(_upgrade)


async def upgrade_apart(engine: AsyncEngine) -> None:
    """As `upgrade`, in a separate process, whose memory is freed at its end. Raises MigrationError."""
    if not await _is_behind(engine):
        return
    url = engine.url.render_as_string(hide_password=False)
    migrating = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from culvert_db.migrate import main; main()"),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        # Not as an argument, because every user of the computer can read arguments.
        _, said = await migrating.communicate(url.encode())
    finally:
        # It may wait for another controller's migration while this controller is told to stop.
        if migrating.returncode is None:
            migrating.kill()
            await migrating.wait()
    if migrating.returncode != 0:
        raise MigrationError(f"the database was not migrated: {said.decode(errors='replace').strip()[-500:]}")


async def _is_behind(engine: AsyncEngine) -> bool:
    newest = max(file.name.partition("_")[0] for file in (_SCRIPTS / "versions").glob("[0-9]*.py"))
    async with engine.connect() as connection:
        if await connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
            return True
        return await connection.scalar(text("SELECT version_num FROM alembic_version")) != newest


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def main() -> None:
    """The process of `upgrade_apart`. It reads the database URL from standard input."""

    async def run() -> None:
        engine = create_engine(sys.stdin.read())
        try:
            await upgrade(engine)
        finally:
            await engine.dispose()

    asyncio.run(run())
