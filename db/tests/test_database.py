"""Against a real embedded Postgres: migrations, constraints that allocation relies on, notification, crash recovery."""

from __future__ import annotations

import asyncio
import datetime
import importlib
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import culvert_db
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from culvert_db import (
    RESOURCES_CHANNEL,
    Address,
    Base,
    Database,
    Device,
    DeviceState,
    Direction,
    DnsZone,
    Gateway,
    MigrationError,
    PolicyVersion,
    Resource,
    SecurityAssociation,
    Tunnel,
    User,
    bind_database,
    create_engine,
    upgrade,
    upgrade_apart,
)
from culvert_db.embedded import EmbeddedPostgres
from culvert_db.migrate import _MIGRATION_LOCK
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import IntegrityError

# asyncpg has no type stubs.
asyncpg: Any = importlib.import_module("asyncpg")

pytestmark = pytest.mark.slow

MIGRATIONS = Path(culvert_db.__file__).parent / "migrations"


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with EmbeddedPostgres(tmp_path / "pg") as url:
        yield url


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    engine = create_engine(url)
    await upgrade(engine)
    yield bind_database(engine)
    await engine.dispose()


def _resource() -> Resource:
    return Resource(
        name="wiki",
        fqdn="wiki.corp.example",
        targets=[{"prefix": "10.20.0.10/32"}],
        owner="bob@corp.example",
        idle_seconds=300,
        soft_packets=0,
        soft_bytes=0,
        soft_seconds=0,
    )


async def _tunnel(database: Database) -> Tunnel:
    async with database.begin() as session:
        user = User(name="alice", email="alice@corp.example")
        gateway = Gateway(
            name="gw",
            address="198.51.100.2",
            p4runtime_address="10.255.0.2:9559",
            p4runtime_device_id=1,
            pool="10.99.0.0/24",
            wan={},
            lan={},
            kek_ciphertext=b"x",
        )
        resource = _resource()
        session.add_all([user, gateway, resource])
        await session.flush()
        device = Device(
            id=uuid.uuid4(),
            user_id=user.id,
            name="laptop",
            fingerprint=bytes(32),
            certificate_serial="1",
            certificate_expires_at=datetime.datetime.now(datetime.UTC),
        )
        session.add(device)
        await session.flush()
        session.add(Address(gateway_id=gateway.id, device_id=device.id, address="10.99.0.1"))
        await session.flush()
        tunnel = Tunnel(
            id=uuid.uuid4(),
            device_id=device.id,
            resource_id=resource.id,
            gateway_id=gateway.id,
            generation=1,
            peer_address="203.0.113.10",
            peer_port=4500,
            endpoint=7,
            permitted_until=datetime.datetime.now(datetime.UTC),
            policy_version=1,
        )
        session.add(tunnel)
    return tunnel


def _sa(tunnel: Tunnel, direction: Direction, generation: int, spi: int, number: int) -> SecurityAssociation:
    return SecurityAssociation(
        tunnel_id=tunnel.id,
        gateway_id=tunnel.gateway_id,
        device_id=tunnel.device_id,
        direction=direction,
        generation=generation,
        spi=spi,
        slot=number,
        sa_id=number,
        tag=1,
    )


async def test_migrations_make_exactly_the_models_and_can_run_again(url: str) -> None:
    engine = create_engine(url)
    await upgrade(engine)
    await upgrade(engine)
    async with engine.connect() as connection:
        difference = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync), Base.metadata)
        )
    await engine.dispose()
    assert difference == []


async def test_a_process_of_its_own_migrates_too_and_says_why_it_could_not(url: str) -> None:
    engine = create_engine(url)
    await asyncio.gather(upgrade_apart(engine), upgrade_apart(engine))
    async with engine.begin() as connection:
        assert (await connection.scalars(select(Tunnel.id))).all() == []
        await connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    with pytest.raises(MigrationError, match="Can't locate revision identified by '0000'"):
        await upgrade_apart(engine)
    await engine.dispose()


async def test_a_cancelled_migration_does_not_happen_later(url: str) -> None:
    """A start that fails leaves no earlier process behind (openclaw/shellbench issue 82)."""
    engine = create_engine(url)
    locks = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"

    async def wait_for_waiting(count: int) -> None:
        async with asyncio.timeout(20), engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            while True:
                if await connection.scalar(text(locks)) == count:
                    return
                await asyncio.sleep(0.05)

    async with engine.connect() as connection:
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
        upgrading = asyncio.create_task(upgrade_apart(engine))
        await wait_for_waiting(1)
        upgrading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upgrading
    await wait_for_waiting(0)
    async with engine.connect() as connection:
        for _ in range(20):
            assert await connection.scalar(text("SELECT to_regclass('alembic_version')")) is None
            await asyncio.sleep(0.1)
    await engine.dispose()


async def test_two_controllers_may_migrate_at_once(url: str) -> None:
    engines = [create_engine(url), create_engine(url)]
    await asyncio.gather(*(upgrade(engine) for engine in engines))
    await asyncio.gather(*(engine.dispose() for engine in engines))


async def test_an_inbound_spi_is_unique_for_each_receiver(database: Database) -> None:
    tunnel = await _tunnel(database)
    async with database.begin() as session:
        session.add(_sa(tunnel, Direction.TO_GATEWAY, 1, 4096, 1))
        session.add(_sa(tunnel, Direction.TO_DEVICE, 1, 4096, 2))
    for direction, index in ((Direction.TO_GATEWAY, "gateway_spi"), (Direction.TO_DEVICE, "device_spi")):
        with pytest.raises(IntegrityError, match=index):
            async with database.begin() as session:
                session.add(_sa(tunnel, direction, 2, 4096, 3))


@pytest.mark.parametrize(
    ("spi", "slot", "sa_id"), [(255, 9, 9), (2**32, 9, 9), (4097, 1, 9), (4097, 9, 1), (4097, 65536, 9)]
)
async def test_reserved_or_taken_numbers_are_refused(
    database: Database, spi: int, slot: int, sa_id: int
) -> None:
    tunnel = await _tunnel(database)
    async with database.begin() as session:
        session.add(_sa(tunnel, Direction.TO_GATEWAY, 1, 4096, 1))
    sa = _sa(tunnel, Direction.TO_GATEWAY, 2, spi, slot)
    sa.sa_id = sa_id
    with pytest.raises(IntegrityError):
        async with database.begin() as session:
            session.add(sa)


@pytest.mark.parametrize("taken", [False, True])
async def test_an_endpoint_is_one_tunnels_alone_on_its_gateway(database: Database, taken: bool) -> None:
    first = await _tunnel(database)
    async with database.begin() as session:
        other = _resource()
        other.name, other.fqdn = "git", "git.corp.example"
        session.add(other)
        await session.flush()
        second = Tunnel(
            id=uuid.uuid4(),
            device_id=first.device_id,
            resource_id=other.id,
            gateway_id=first.gateway_id,
            generation=1,
            peer_address="2001:db8::10",
            peer_port=0,
            endpoint=first.endpoint if taken else first.endpoint + 1,
            permitted_until=first.permitted_until,
            policy_version=1,
        )
        session.add(second)
        if taken:
            with pytest.raises(IntegrityError, match="endpoint"):
                await session.flush()
            await session.rollback()
        else:
            await session.flush()


async def test_migration_0002_keeps_earlier_tunnels(url: str) -> None:
    engine = create_engine(url)
    await upgrade(engine)
    tunnel = await _tunnel(bind_database(engine))
    async with bind_database(engine).begin() as session:
        session.add(_sa(tunnel, Direction.TO_GATEWAY, 1, 4096, 1))
    await engine.dispose()
    async with engine.begin() as connection:
        await connection.run_sync(_migrate, command.downgrade, "0001")
        await connection.run_sync(_migrate, command.upgrade, "head")
        found = (await connection.execute(select(Tunnel.id, Tunnel.endpoint))).all()
        tags = (await connection.scalars(select(SecurityAssociation.tag))).all()
    await engine.dispose()
    assert found == [(tunnel.id, 1)]
    assert len(tags) == 1


_GRANTED = """
INSERT INTO grants SELECT resources.id, users.id FROM resources, users;
UPDATE devices SET code_valid_until = '2026-01-01 12:00+00'
"""
_LED = """
SELECT policies.name, policies.enabled, policies.conditions, users.name, resources.name
FROM policies JOIN users ON users.id = policies.user_id
JOIN policy_resources ON policy_resources.policy_id = policies.id
JOIN resources ON resources.id = policy_resources.resource_id
"""


async def test_a_grant_becomes_a_policy_of_that_person_and_back(url: str) -> None:
    engine = create_engine(url)
    await upgrade(engine)
    tunnel = await _tunnel(bind_database(engine))
    await engine.dispose()
    async with engine.begin() as connection:
        await connection.run_sync(_migrate, command.downgrade, "0002")
        for statement in _GRANTED.split(";"):
            await connection.execute(text(statement))
        await connection.run_sync(_migrate, command.upgrade, "head")
        assert (await connection.execute(text(_LED))).all() == [("alice to wiki", True, {}, "alice", "wiki")]
        device = (await connection.execute(select(Device.state, Device.code_proven_at))).one()
        assert device == (DeviceState.APPROVED, datetime.datetime(2026, 1, 1, 4, tzinfo=datetime.UTC))
        assert (await connection.execute(select(Tunnel.id, Tunnel.policy_version))).one() == (tunnel.id, 0)
        await connection.execute(
            text("INSERT INTO policies (name, user_id, enabled) SELECT 'off', id, false FROM users")
        )
        await connection.execute(
            text(
                "INSERT INTO policy_resources SELECT p.id, r.id FROM policies p, resources r WHERE p.name = 'off'"
            )
        )
        await connection.run_sync(_migrate, command.downgrade, "0002")
        assert len((await connection.execute(text("SELECT * FROM grants"))).all()) == 1
        await connection.run_sync(_migrate, command.upgrade, "head")
        await connection.execute(text("UPDATE policies SET conditions = '{\"device_approved\": true}'"))
        await connection.run_sync(_migrate, command.downgrade, "0002")
        assert (await connection.execute(text("SELECT * FROM grants"))).all() == []
    await engine.dispose()


async def test_every_change_of_what_permissions_rest_on_is_counted(database: Database) -> None:
    await _tunnel(database)
    changes = (
        "INSERT INTO groups (name) VALUES ('writers')",
        "INSERT INTO group_members SELECT groups.id, users.id FROM groups, users",
        "INSERT INTO policies (name, group_id) SELECT 'all', id FROM groups",
        "INSERT INTO policy_resources SELECT policies.id, resources.id FROM policies, resources",
        "UPDATE policies SET enabled = false",
        "DELETE FROM policy_resources",
        "DELETE FROM group_members",
        "UPDATE devices SET state = 'approved'",
        "UPDATE devices SET state = 'pending'",
        "DELETE FROM groups",
    )
    counted: list[bool] = []
    for change in changes:
        async with database.begin() as session:
            before = await session.scalar(select(PolicyVersion.version))
            await session.execute(text(change))
            counted.append(await session.scalar(select(PolicyVersion.version)) != before)
    # An empty group, and an approval, take nothing from anybody; the last deletes the policy with its group.
    assert counted == [False, True, True, True, True, True, True, False, True, True]


def _migrate(connection: Connection, move: Callable[[Config, str], None], revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    move(config, revision)


async def test_a_changed_resource_is_announced(url: str, database: Database) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    def hear(_connection: object, _pid: int, channel: str, _payload: str) -> None:
        heard.put_nowait(channel)

    listener = await asyncpg.connect(url)
    await listener.add_listener(RESOURCES_CHANNEL, hear)
    async with database.begin() as session:
        resource = _resource()
        session.add(resource)
    assert await asyncio.wait_for(heard.get(), 2) == RESOURCES_CHANNEL
    async with database.begin() as session:
        await session.delete(resource)
    assert await asyncio.wait_for(heard.get(), 2) == RESOURCES_CHANNEL
    await listener.close()


async def test_names_take_their_one_spelling_and_those_that_cannot_are_kept(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = create_engine(url)
    await upgrade(engine)
    async with bind_database(engine).begin() as session:
        for name in ("wiki", "books", "again", "encoded"):
            resource = _resource()
            resource.name, resource.fqdn = name, f"{name}.corp.example"
            session.add(resource)
        zone = {"server": "192.0.2.53", "port": 53, "key": "k", "ttl": 60, "instance": "default", "view": ""}
        session.add(DnsZone(name="books", origin="corp.example", **zone))
    await engine.dispose()
    spelt = {
        "books": "bücher.corp.example",
        "again": "bu\u0308cher.corp.example",
        "encoded": "xn--strae-oqa.corp.example",
    }
    async with engine.begin() as connection:
        await connection.run_sync(_migrate, command.downgrade, "0037")
        for name, fqdn in spelt.items():
            query = text("UPDATE resources SET fqdn = :fqdn WHERE name = :name")
            await connection.execute(query, {"name": name, "fqdn": fqdn})
        await connection.execute(text("UPDATE dns_zones SET origin = 'bücher.example'"))
        await connection.run_sync(_migrate, command.upgrade, "head")
        rows = (await connection.execute(select(Resource.name, Resource.fqdn, Resource.unicode_name))).all()
        origin = await connection.scalar(select(DnsZone.origin))
    await engine.dispose()
    assert sorted(tuple(row) for row in rows) == [
        ("again", "bu\u0308cher.corp.example", ""),
        ("books", "xn--bcher-kva.corp.example", "bücher.corp.example"),
        ("encoded", "xn--strae-oqa.corp.example", "straße.corp.example"),
        ("wiki", "wiki.corp.example", ""),
    ]
    assert origin == "xn--bcher-kva.example"
    [warning] = [it for it in caplog.messages if "in the DNS" in it]
    assert "resources: again has the name" in warning
    assert "xn--bcher-kva.corp.example" in warning


async def test_people_keep_one_spelling_and_the_log_names_shared_addresses(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = create_engine(url)
    spelt = {
        "max": "Max.Mustermann@Corp.Example",
        "max2": "max.mustermann@corp.example",
        "ada": "ÄDA@BÜCHER.example",
        "bob": "bob@corp.example",
    }
    await upgrade(engine)
    async with engine.begin() as connection:
        await connection.run_sync(_migrate, command.downgrade, "0038")
        await connection.execute(
            text("INSERT INTO users (name, email) VALUES (:name, :email)"),
            [{"name": name, "email": email} for name, email in spelt.items()],
        )
        await connection.run_sync(_migrate, command.upgrade, "head")
        rows = (await connection.execute(select(User.name, User.email))).all()
    await engine.dispose()
    assert {row.name: row.email for row in rows} == {
        "max": "max.mustermann@corp.example",
        "max2": "max.mustermann@corp.example",
        "ada": "äda@xn--bcher-kva.example",
        "bob": "bob@corp.example",
    }
    [warning] = [it for it in caplog.messages if "e-mail address" in it]
    assert warning.startswith("max and max2 have the e-mail address max.mustermann@corp.example: ")
