"""Brings a database to the newest revision, from code: no alembic.ini, no second driver."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

# Any number will do, as long as every controller takes the same one.
_MIGRATION_LOCK = 4500_50


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def _upgrade(connection: Connection) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


async def upgrade(engine: AsyncEngine) -> None:
    """Run the missing migrations in one transaction; several controllers may start at once."""
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade)
