"""Migrates a database to the newest revision, without alembic.ini and without a second driver.

release N−1 ──► its schema ◄── expansions of N ──► release N        both run beside each other
release N ────► schema of N ◄── N+1 expands, and contracts what N has given up

The schema names the oldest revision whose code may use it, in the comment of `alembic_version.version_num`, so that an
older release knows without knowing the newer one's migrations.

Alembic is imported only for a migration, because it takes 11 MiB.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from culvert_db.engine import create_engine
from culvert_db.outage import describe, sqlstate

_log = logging.getLogger(__name__)

# The newest revision of the release before this one, whose controllers run beside ours until each is upgraded.
BESIDE = "0044"
# An arbitrary number, the same at every controller.
_MIGRATION_LOCK = 4500_50
_SCRIPTS = Path(__file__).parent / "migrations"
# A migration waits for a table less long than Postgres takes to find a deadlock (deadlock_timeout, 1 s), whose victim could
# be a device's call at another controller. It gives up its tables instead, and begins anew.
_LOCK_MS, _LOCKED = 300, "55P03"
_ATTEMPTS, _PAUSE_SECONDS = 120, 0.3
_FROM = "used by code from revision "
_OLDEST = text("SELECT col_description(to_regclass('alembic_version'), 1)")
_TELL_REVISIONS = text("""
SELECT true FROM pg_attribute
WHERE attrelid = to_regclass('controllers') AND attname = 'revision' AND NOT attisdropped
""")
_OLD_CONTROLLERS = text("""
SELECT name FROM controllers WHERE ends_at > now() AND coalesce(revision, '') < :beside ORDER BY name
""")


class MigrationError(RuntimeError):
    """The database was not migrated, and is as before. The text has the cause and the remedy, or the output's last line."""


def newest_revision() -> str:
    return max(file.name.partition("_")[0] for file in (_SCRIPTS / "versions").glob("[0-9]*.py"))


async def upgrade(engine: AsyncEngine) -> None:
    """Run the missing migrations in one transaction; several controllers may start at once. The schema of the next release
    stays as it is. Raises MigrationError, also for the schema of the release after the next.
    """
    if not await _is_behind(engine):
        return
    for _ in range(_ATTEMPTS):
        try:
            async with engine.begin() as connection:
                await connection.run_sync(_upgrade)
        except DBAPIError as error:
            if sqlstate(error) != _LOCKED:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return
    raise MigrationError(
        "the database was not migrated, because its tables are in use all the time. Remedy: end long transactions, such "
        "as a backup (pg_stat_activity lists them), and start again"
    )


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
    """Raises MigrationError."""
    ours = newest_revision()
    async with engine.connect() as connection:
        if await connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
            return True
        there = str(await connection.scalar(text("SELECT version_num FROM alembic_version")))
        if there <= ours:
            return there != ours
        oldest = str(await connection.scalar(_OLDEST) or "")
    if not oldest.startswith(_FROM) or oldest.removeprefix(_FROM) > ours:
        raise MigrationError(
            f"the database is of a newer release (revision {there}), which works together with the release before it "
            f"alone, and this one is older (revision {ours}). Remedy: install the release of the other controllers. To "
            "go back, restore the backup that was made before the upgrade"
        )
    _log.info("the database is of the next release already", extra={"revision": there})
    return False


def _check_neighbours(connection: Connection) -> None:
    """Raises MigrationError while a controller runs that cannot use the new schema."""
    if not connection.scalar(_TELL_REVISIONS):
        return
    if old := connection.scalars(_OLD_CONTROLLERS, {"beside": BESIDE}).all():
        raise MigrationError(
            f"{', '.join(old)} still runs a release that cannot use this one's database. Remedy: upgrade it to the "
            "release before this one first, or stop it: it counts as stopped after its lease"
        )


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_MS}ms'"))
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    config.attributes["connection"] = connection
    _check_neighbours(connection)
    command.upgrade(config, "head")
    # COMMENT takes no parameters.
    connection.execute(text(f"COMMENT ON COLUMN alembic_version.version_num IS '{_FROM}{BESIDE}'"))


def main() -> None:
    """The process of `upgrade_apart`. It reads the database URL from standard input."""

    async def run() -> None:
        engine = create_engine(sys.stdin.read())
        try:
            await upgrade(engine)
        finally:
            await engine.dispose()

    try:
        asyncio.run(run())
    except MigrationError as error:
        sys.exit(str(error))
    except DBAPIError as error:
        sys.exit(describe(error) or str(error))
