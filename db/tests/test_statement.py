"""Rows as JSON are the rows that the mapper reads; compiled statements take and give what the driver does."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError, UniqueViolationError
from culvert_db import (
    Database,
    Device,
    DeviceState,
    Gateway,
    InSession,
    Statement,
    User,
    as_json,
    bind_database,
    create_engine,
    direct,
    from_json,
    upgrade,
)
from culvert_db.embedded import EmbeddedPostgres
from sqlalchemy import bindparam, insert, inspect, select, update

pytestmark = pytest.mark.slow


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database]:
    async with EmbeddedPostgres(tmp_path / "pg") as url:
        engine = create_engine(url)
        await upgrade(engine)
        yield bind_database(engine)
        await engine.dispose()


def columns(row: Device | Gateway) -> dict[str, object]:
    return {name: getattr(row, name) for name in inspect(type(row)).columns.keys()}  # noqa: SIM118


async def test_a_row_as_json_is_the_row(database: Database) -> None:
    now = datetime.datetime(2026, 3, 29, 1, 30, 0, 7, tzinfo=datetime.UTC)
    device = Device(
        id=uuid.uuid4(),
        name='a "name"\n of ünïcode',
        fingerprint=bytes(range(32)),
        certificate_serial="1",
        certificate_expires_at=now,
        last_seen_address="2001:db8::1",
        posture={"os": "Debian", "disk": None},
    )
    gateway = Gateway(
        name="gw",
        address="198.51.100.1",
        p4runtime_address="x:1",
        p4runtime_device_id=2**40,
        pool="10.99.0.0/24",
        wan={"port": 1},
        lan={},
        kek_ciphertext=b"secret",
    )
    async with database.begin() as session:
        device.user = User(name="alice", email="alice@corp.example")
        session.add_all([device, gateway])
    whole = Statement(select(as_json(Device), as_json(Gateway, without=["kek_ciphertext"])))
    async with database() as session:
        found = await InSession(session).row(whole)
        read = await session.get(Device, device.id)
    assert found is not None
    assert read is not None
    parsed = from_json(Device, found[0])
    assert columns(parsed) == columns(read)
    assert parsed.state is DeviceState.PENDING
    expected = columns(gateway) | {"kek_ciphertext": None}
    assert columns(from_json(Gateway, found[1])) == expected
    assert b"secret".hex() not in found[1]


async def test_a_statement_is_in_its_sessions_transaction(database: Database) -> None:
    rename = Statement(
        update(User).where(User.name == bindparam("was")).values(name=bindparam("now")).returning(User.id)
    )
    async with database.begin() as session:
        session.add(User(name="alice", email="alice@corp.example"))
    async with database() as session:
        statements = InSession(session)
        assert len(await statements.rows(rename, was="alice", now="bob")) == 1
        assert await statements.row(rename, was="alice", now="bob") is None
        await session.rollback()
    async with database() as session:
        assert await session.scalar(select(User.name)) == "alice"
        with pytest.raises(KeyError):
            await InSession(session).run(rename, was="alice")


_NAMES = Statement(select(User.name).order_by(User.name))
_ADD = Statement(
    insert(User).values(name=bindparam("name"), email=bindparam("email")).returning(User.__table__.c.id)
)


def person(name: str) -> dict[str, object]:
    return {"name": name, "email": f"{name}@corp.example"}


async def test_a_direct_transaction_is_whole_or_nothing(database: Database) -> None:
    async with direct(database) as transaction:
        await transaction.run(_ADD, **person("alice"))
        await transaction.run_all(_ADD, [person("zoe")])
        async with direct(database) as other:
            assert await other.rows(_NAMES) == []
        await transaction.commit()
    async with direct(database) as transaction:
        await transaction.run(_ADD, **person("bob"))
    async with direct(database) as transaction:
        with pytest.raises(UniqueViolationError):
            await transaction.run_all(_ADD, [person("alice")])
        # A failed transaction stays failed, although Postgres accepts COMMIT without an error.
        with pytest.raises(RuntimeError, match="failed"):
            await transaction.commit()
    async with direct(database) as transaction:
        assert [row[0] for row in await transaction.rows(_NAMES)] == ["alice", "zoe"]


async def test_connections_beyond_the_pools_size_are_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as url:
        engine = create_engine(url, pool_size=1)
        async with direct(bind_database(engine)) as first, direct(bind_database(engine)) as second:
            pass
        assert (first.driver.is_closed(), second.driver.is_closed()) == (True, False)
        assert [record for record in caplog.records if record.name.startswith("sqlalchemy")] == []
        await engine.dispose()


async def _read_after(act: Callable[[], Awaitable[object]], database: Database) -> None:
    async with direct(database) as session:
        await act()
        await session.rows(_NAMES)


async def test_a_connection_that_died_is_not_used_again(database: Database) -> None:
    end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname <> ''"
    async with direct(database), direct(database):
        pass
    async with direct(database) as killer:
        # The last one, if the server's announcement arrives before the connection's end.
        with pytest.raises((PostgresError, InterfaceError, InternalClientError)):
            await _read_after(lambda: killer.driver.fetch(end), database)
        async with direct(database) as session:
            assert await session.rows(_NAMES) == []
