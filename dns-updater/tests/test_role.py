"""The rights of dns-updater's database role. All other tests use the role, so they show that the rights suffice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from culvert_db import Base, create_engine, dns_role, upgrade
from culvert_db.embedded import EmbeddedPostgres
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from .world import PASSWORD, World

pytestmark = pytest.mark.slow

VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "MAINTAIN")
RIGHTS = {
    "resources": {"SELECT"},
    "dns_zones": {"SELECT", "DELETE"},
    "dns_zone_resources": {"SELECT"},
    "dns_leases": {"SELECT", "INSERT", "UPDATE"},
    "dns_records": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "dns_zone_status": {"SELECT", "INSERT", "UPDATE"},
}


async def test_the_role_has_the_rights_of_its_statements_and_no_others(world: World) -> None:
    engine = create_engine(world.updater_url)
    async with engine.connect() as connection:
        for table in [*Base.metadata.tables, "alembic_version"]:
            held = set[str]()
            for verb in VERBS:
                ask = (
                    "has_any_column_privilege"
                    if verb in {"SELECT", "INSERT", "UPDATE"}
                    else "has_table_privilege"
                )
                if await connection.scalar(
                    text(f"SELECT {ask}(:table, :verb)"), {"table": table, "verb": verb}
                ):
                    held.add(verb)
            assert held == RIGHTS.get(table, set()), table
    await engine.dispose()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM admins",
        "SELECT * FROM totp",
        "SELECT * FROM gateways",
        "SELECT * FROM idempotency_keys",
        "SELECT owner FROM resources",
        "UPDATE resources SET fqdn = 'x'",
        "UPDATE dns_zones SET server = 'x'",
        "INSERT INTO dns_zones (name, origin, server, key) VALUES ('x', 'x', 'x', 'x')",
        "INSERT INTO audit_lines DEFAULT VALUES",
        "CREATE TABLE mine ()",
        "CREATE ROLE mine SUPERUSER",
        "SET ROLE culvert",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "SELECT rolpassword FROM pg_authid",
    ],
)
async def test_statements_of_other_programs_are_refused(world: World, statement: str) -> None:
    engine = create_engine(world.updater_url)
    with pytest.raises(DBAPIError, match="permission denied"):
        async with engine.begin() as connection:
            await connection.exec_driver_sql(statement)
    await engine.dispose()


async def test_the_dns_role_signs_in_with_its_password(tmp_path: Path) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as url:
        owner = create_engine(url)
        await upgrade(owner)
        before = await dns_role.prepare(owner, url, "before")
        after = await dns_role.prepare(owner, url, PASSWORD)
        access = tmp_path / "pg/data/pg_hba.conf"
        text_before = await asyncio.to_thread(access.read_text)
        rule = 'local all "postgres_dns" scram-sha-256\n'
        await asyncio.to_thread(access.write_text, rule + text_before)
        async with owner.connect() as connection:
            await connection.execute(text("SELECT pg_reload_conf()"))
            await asyncio.sleep(0.5)
        await owner.dispose()
        engine = create_engine(after)
        async with engine.connect() as connection:
            assert await connection.scalar(text("SELECT current_user")) == "postgres_dns"
        await engine.dispose()
        engine = create_engine(before)
        with pytest.raises(Exception, match="password authentication failed"):
            await engine.connect()
        await engine.dispose()


async def test_an_owner_that_may_make_no_roles_is_told_the_remedy(cluster: str) -> None:
    engine = create_engine(cluster)
    async with engine.begin() as connection:
        await connection.exec_driver_sql("CREATE ROLE plain LOGIN")
    await engine.dispose()
    url = cluster.replace("culvert@", "plain@")
    engine = create_engine(url)
    with pytest.raises(dns_role.RoleRefusedError, match='ALTER ROLE "plain" CREATEROLE'):
        await dns_role.prepare(engine, url, PASSWORD)
    await engine.dispose()


async def test_the_owners_credentials_are_not_handed_on(world: World) -> None:
    engine = create_engine(world.database_url)
    url = f"{world.database_url}&sslcert=/owner.pem&sslkey=/owner.key&passfile=/owner&sslrootcert=/ca.pem"
    own = await dns_role.prepare(engine, url, PASSWORD)
    await engine.dispose()
    assert "owner" not in own
    assert "sslrootcert=%2Fca.pem" in own


@pytest.mark.parametrize("privilege", ["ALTER ROLE {} CREATEROLE", "GRANT pg_read_all_data TO {}"])
async def test_an_existing_role_with_privileges_is_not_used(tmp_path: Path, privilege: str) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as url:
        engine = create_engine(url)
        await upgrade(engine)
        await dns_role.prepare(engine, url, PASSWORD)
        async with engine.begin() as connection:
            await connection.exec_driver_sql(privilege.format("postgres_dns"))
        with pytest.raises(dns_role.RoleRefusedError, match='DROP ROLE "postgres_dns"'):
            await dns_role.prepare(engine, url, PASSWORD)
        await engine.dispose()
