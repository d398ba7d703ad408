"""Two releases on one schema: what a migration may change, and which schemas a release takes."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from alembic import command
from alembic.config import Config
from culvert_db import Gateway, MigrationError, create_engine, from_json, migrate, newest_revision, upgrade
from culvert_db.embedded import EmbeddedPostgres
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

pytestmark = pytest.mark.slow

SCRIPTS = migrate._SCRIPTS


class Column(NamedTuple):
    kind: str
    required: bool
    has_default: bool


class Schema(NamedTuple):
    """`limits`: unique indexes and the constraints that may refuse a row, each with its columns ("" for an expression)."""

    columns: Mapping[tuple[str, str], Column]
    limits: Mapping[str, tuple[str, frozenset[str]]]


_COLUMNS = text("""
SELECT relname AS table, attname AS column, format_type(atttypid, atttypmod) AS kind, attnotnull AS required,
    atthasdef OR attidentity <> '' AS has_default
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
""")
_LIMITS = text("""
SELECT conname AS name, relname AS table, array_agg(attname::text) AS columns
FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
    JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY (conkey)
WHERE relnamespace = current_schema()::regnamespace AND contype IN ('c', 'f', 'x') GROUP BY conname, relname
UNION ALL
SELECT index.relname, owner.relname, array_agg(coalesce(attname::text, ''))
FROM pg_index JOIN pg_class AS index ON index.oid = indexrelid JOIN pg_class AS owner ON owner.oid = indrelid
    CROSS JOIN unnest(indkey) AS key LEFT JOIN pg_attribute ON attrelid = indrelid AND attnum = key AND key > 0
WHERE indisunique AND owner.relnamespace = current_schema()::regnamespace GROUP BY index.relname, owner.relname
""")


def read_schema(connection: Connection) -> Schema:
    columns = {
        (it.table, it.column): Column(it.kind, it.required, it.has_default)
        for it in connection.execute(_COLUMNS)
    }
    limits = {it.name: (it.table, frozenset(it.columns)) for it in connection.execute(_LIMITS)}
    return Schema(columns, limits)


def narrowings(before: Schema, after: Schema) -> list[str]:
    """The differences that a program of the schema `before` may fail at."""
    found: list[str] = []
    tables = {table for table, _ in before.columns}
    for (table, name), old in before.columns.items():
        new, where = after.columns.get((table, name)), f"{table}.{name}"
        if new is None:
            found.append(f"{where} is gone")
        elif new.kind != old.kind:
            found.append(f"{where} is {new.kind}, and was {old.kind}")
        elif new.required and not (old.required and (new.has_default or not old.has_default)):
            found.append(f"{where} is required")
    for (table, name), new in after.columns.items():
        if table in tables and (table, name) not in before.columns and new.required and not new.has_default:
            found.append(f"{table}.{name} is required and has no default")
    for limit, (table, columns) in after.limits.items():
        if limit not in before.limits and any(not it or (table, it) in before.columns for it in columns):
            found.append(f"{limit} may refuse rows of {table}")
    return found


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    async with EmbeddedPostgres(tmp_path / "pg") as url:
        engine = create_engine(url)
        yield engine
        await engine.dispose()


def migrate_to(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def contracts(revision: str) -> str:
    """The revision whose expansion this one ends; empty for an expansion."""
    [file] = (SCRIPTS / "versions").glob(f"{revision}_*.py")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(getattr(module, "contracts", ""))


async def test_what_a_release_adds_to_the_one_before_is_an_expansion(engine: AsyncEngine) -> None:
    """A contraction names the migration whose expansion it ends, and the release before must have that one already."""
    known = sorted(file.name.partition("_")[0] for file in (SCRIPTS / "versions").glob("[0-9]*.py"))
    assert migrate.BESIDE in known
    async with engine.begin() as connection:
        await connection.run_sync(migrate_to, migrate.BESIDE)
        before = await connection.run_sync(read_schema)
        for revision in known[known.index(migrate.BESIDE) + 1 :]:
            await connection.run_sync(migrate_to, revision)
            after = await connection.run_sync(read_schema)
            if not "" < contracts(revision) <= migrate.BESIDE:
                assert narrowings(before, after) == [], revision
            before = after


async def test_each_change_that_an_older_release_may_fail_at_is_found(engine: AsyncEngine) -> None:
    await upgrade(engine)
    for change, harmful in {
        "ALTER TABLE gateways ADD COLUMN site text": False,
        "ALTER TABLE gateways ADD COLUMN site text NOT NULL DEFAULT ''": False,
        "ALTER TABLE gateways ADD COLUMN site text UNIQUE": False,
        "ALTER TABLE gateways ALTER COLUMN pool DROP NOT NULL": False,
        "ALTER TABLE gateways DROP CONSTRAINT uq_gateways_name": False,
        "CREATE TABLE sites (name text NOT NULL UNIQUE)": False,
        "CREATE INDEX by_pool ON gateways (pool)": False,
        "ALTER TABLE gateways ADD COLUMN site text NOT NULL": True,
        "ALTER TABLE gateways DROP COLUMN pool6 CASCADE": True,
        "ALTER TABLE gateways RENAME COLUMN pool TO prefix": True,
        "ALTER TABLE gateways ALTER COLUMN pool6 SET NOT NULL": True,
        "ALTER TABLE gateways ALTER COLUMN suite DROP DEFAULT": True,
        "ALTER TABLE gateways ALTER COLUMN created_at TYPE text": True,
        "ALTER TABLE gateways ADD CONSTRAINT small CHECK (masklen(pool) > 1)": True,
        "ALTER TABLE gateways ADD CONSTRAINT other_pool UNIQUE (pool)": True,
        "CREATE UNIQUE INDEX small ON gateways (lower(name))": True,
        "ALTER TABLE recovery_codes RENAME TO codes": True,
    }.items():
        async with engine.connect() as connection:
            before = await connection.run_sync(read_schema)
            await connection.execute(text(change))
            found = narrowings(before, await connection.run_sync(read_schema))
            await connection.rollback()
        assert bool(found) is harmful, (change, found)


async def test_uses_of_a_policy_are_counted_from_the_upgrade(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(migrate_to, "0055")
        await connection.execute(
            text(
                "WITH person AS (INSERT INTO users (name, email) VALUES ('alice', 'alice@corp.example') RETURNING id) "
                "INSERT INTO policies (name, user_id, created_at) SELECT 'old', id, now() - interval '1 year' FROM person"
            )
        )
        await connection.run_sync(migrate_to, "0056")
        known = await connection.execute(text("SELECT counted_from = now(), last_used_on FROM policy_uses"))
        assert known.all() == [(True, None)]


def test_columns_of_a_newer_schema_are_not_seen() -> None:
    gateway = from_json(Gateway, '{"name": "gw", "site_of_the_future": 1, "address6": null}')
    assert (gateway.name, gateway.address6) == ("gw", None)


async def test_a_migration_waits_for_a_table_without_stopping_others(
    engine: AsyncEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader holds one table and asks for another that the migration has: a deadlock, unless the migration gives way."""
    following = Release(tmp_path, monkeypatch, migrate.BESIDE, "9001", tables=("devices", "gateways"))
    await upgrade(engine)
    other = create_engine(engine.url.render_as_string(hide_password=False))
    async with other.connect() as reader:
        await reader.execute(text("SELECT FROM gateways"))
        migrating = asyncio.create_task(following.starts(engine))
        await asyncio.sleep(0.2)
        for _ in range(20):
            await reader.execute(text("SELECT FROM devices"))
            await asyncio.sleep(0.1)
        assert not migrating.done()
        await reader.rollback()
        assert await migrating == "9001"
    await other.dispose()


class Release:
    """A release with these migrations in addition to ours, and the given one before it."""

    def __init__(
        self,
        directory: Path,
        patch: pytest.MonkeyPatch,
        beside: str,
        *more: str,
        tables: Sequence[str] = ("gateways",),
    ) -> None:
        self._patch, self._beside, self._scripts = patch, beside, directory / (more[-1] if more else "ours")
        shutil.copytree(SCRIPTS, self._scripts)
        before = newest_revision()
        for revision in more:
            (self._scripts / f"versions/{revision}_more.py").write_text(
                f"from alembic import op\nrevision, down_revision = {revision!r}, {before!r}\n"
                f"def upgrade():\n  for table in {tables}: op.execute(f'ALTER TABLE {{table}} ADD more_{revision} text')\n"
            )
            before = revision

    async def starts(self, engine: AsyncEngine) -> str:
        """The database's revision afterwards. Raises MigrationError."""
        with self._patch.context() as patch:
            patch.setattr(migrate, "_SCRIPTS", self._scripts)
            patch.setattr(migrate, "BESIDE", self._beside)
            try:
                await upgrade(engine)
            finally:
                # Prepared statements have the types of before.
                await engine.dispose()
        return await revision_of(engine)


async def revision_of(engine: AsyncEngine) -> str:
    async with engine.connect() as connection:
        return str(await connection.scalar(text("SELECT version_num FROM alembic_version")))


_LIVE = text("""
INSERT INTO controllers (holder, name, ends_at, revision) VALUES ('1', 'one', now() + interval '1 minute', :revision)
""")


async def test_a_release_takes_the_schema_of_the_next_one_and_of_no_later_one(
    engine: AsyncEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = newest_revision()
    ours = Release(tmp_path, monkeypatch, migrate.BESIDE)
    following = Release(tmp_path, monkeypatch, first, "9001")
    after_next = Release(tmp_path, monkeypatch, "9001", "9001", "9002")
    assert await ours.starts(engine) == first
    async with engine.begin() as connection:
        await connection.execute(_LIVE, {"revision": first})
    # Two releases at once, while a controller of ours serves.
    with pytest.raises(MigrationError, match=r"one still runs a release .* Remedy: upgrade it"):
        await after_next.starts(engine)
    assert await revision_of(engine) == first
    assert await following.starts(engine) == "9001"
    assert await ours.starts(engine) == "9001"
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE controllers SET revision = '9001'"))
    assert await after_next.starts(engine) == "9002"
    assert await following.starts(engine) == "9002"
    with pytest.raises(
        MigrationError, match=r"of a newer release \(revision 9002\).* Remedy: install the release"
    ):
        await ours.starts(engine)
    assert await revision_of(engine) == "9002"
