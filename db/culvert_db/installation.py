"""The Culvert that a database belongs to, and what a new one finds in it.

The id of a Culvert is the comment of the table `alembic_version`, so that dumps contain it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

_PREFIX = "Culvert "
_OWNER = text("SELECT obj_description(to_regclass('alembic_version'), 'pg_class')")
# Tables, views, sequences and functions of the schema that new tables would be made in, without those of extensions.
_RELATIONS = """
FROM pg_class relation WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = relation.oid AND deptype = 'e')
"""
_ROUTINES = """
FROM pg_proc routine WHERE pronamespace = current_schema()::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = routine.oid AND deptype = 'e')
"""
_CONTENT = text(f"""
SELECT current_setting('server_version') AS release,
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create,
    (SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user) AS may_make_roles,
    EXISTS (SELECT {_RELATIONS}) OR EXISTS (SELECT {_ROUTINES}) AS used,
    to_regclass('alembic_version') IS NOT NULL AS migrated,
    EXISTS (SELECT FROM pg_roles WHERE rolname = current_database() || '_dns') AS has_dns_role
""")  # noqa: S608
_EMPTY = text(f"""
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT relation.oid::regclass {_RELATIONS} AND relkind IN ('r', 'p') LOOP
        EXECUTE 'DROP TABLE IF EXISTS ' || name || ' CASCADE';
    END LOOP;
    FOR name IN SELECT routine.oid::regprocedure {_ROUTINES} LOOP
        EXECUTE 'DROP ROUTINE IF EXISTS ' || name || ' CASCADE';
    END LOOP;
END $$
""")


class OtherCulvertError(Exception):
    """The database belongs to another Culvert, whose keys are elsewhere."""


@dataclass(frozen=True, slots=True)
class Content:
    """`owner`: the id of the Culvert that has claimed the database, or empty."""

    release: str
    may_create: bool
    may_make_roles: bool
    used: bool
    migrated: bool
    has_dns_role: bool
    owner: str


async def content(engine: AsyncEngine) -> Content:
    async with engine.connect() as connection:
        found = (await connection.execute(_CONTENT)).one()
        return Content(
            release=str(found.release).split(" ", 1)[0],
            may_create=bool(found.may_create),
            may_make_roles=bool(found.may_make_roles),
            used=bool(found.used),
            migrated=bool(found.migrated),
            has_dns_role=bool(found.has_dns_role),
            owner=await _owner(connection),
        )


async def check_owner(engine: AsyncEngine, installation: str) -> None:
    """Raises OtherCulvertError. A database without an owner, or without tables, is anybody's."""
    async with engine.connect() as connection:
        _check(await _owner(connection), installation)


async def claim(engine: AsyncEngine, installation: str) -> None:
    """Claim a migrated database, unless it is claimed already. Raises OtherCulvertError."""
    async with engine.begin() as connection:
        owner = await _owner(connection)
        _check(owner, installation)
        if not owner:
            # COMMENT takes no parameters; the id is hexadecimal.
            comment = _PREFIX + bytes.fromhex(installation).hex()
            await connection.execute(text(f"COMMENT ON TABLE alembic_version IS '{comment}'"))


async def empty(engine: AsyncEngine, *, with_dns_role: bool) -> None:
    """Drop the tables and functions of the schema, and dns-updater's role if asked: for a database that was empty."""
    async with engine.begin() as connection:
        await connection.execute(_EMPTY)
        if with_dns_role:
            role = f"{await connection.scalar(text('SELECT current_database()'))}_dns"
            quoted = connection.dialect.identifier_preparer.quote_identifier(role)
            if await connection.scalar(
                text("SELECT true FROM pg_roles WHERE rolname = :role"), {"role": role}
            ):
                await connection.execute(text(f"DROP OWNED BY {quoted}"))
                await connection.execute(text(f"DROP ROLE {quoted}"))


async def _owner(connection: AsyncConnection) -> str:
    comment = str(await connection.scalar(_OWNER) or "")
    return comment.removeprefix(_PREFIX) if comment.startswith(_PREFIX) else ""


def _check(owner: str, installation: str) -> None:
    if owner and owner != installation:
        raise OtherCulvertError(
            f"the database belongs to another Culvert ({owner}), and the keys in state_dir are of {installation}. "
            "Remedy: name a database of its own, or put the state directory back that belongs to this one"
        )
