"""A controller that is backed up while it serves, lost, and restored elsewhere: its devices notice nothing."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest
from culvert_db import create_engine, embedded
from culvert_db.embedded import EmbeddedPostgres
from culvert_proto import agent_pb2_grpc
from culvert_service.audit import repository as audit_repository
from culvert_service.config import ConfigurationError
from culvert_service.controller import reading
from culvert_service.operation import postgres_tools
from culvert_service.operation.backup import backup, restore
from sqlalchemy import text

from .conftest import free_port, running, settings_in

pytestmark = pytest.mark.slow


async def test_a_controller_comes_back_from_its_backup(tmp_path: Path) -> None:
    settings, kept = settings_in(tmp_path / "first"), tmp_path / "culvert.tar"
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        device = await world.enrol()
        manifest = await backup(settings, kept)
        await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
        assert kept.stat().st_mode & 0o777 == 0o600
        assert {"state/master.key", "state/device-ca.key", "database.dump"} <= set(manifest.sha256)
        with pytest.raises(ConfigurationError, match="exists already"):
            await backup(settings, kept)
        with pytest.raises(ConfigurationError, match="belongs to a controller already"):
            await restore(settings, kept)
    shutil.rmtree(settings.state_dir)

    damaged = tmp_path / "damaged.tar"
    content = bytearray(kept.read_bytes())
    content[content.index(b"PGDMP") + 100] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(ConfigurationError, match="is damaged"):
        await restore(settings, damaged)
    damaged.write_bytes(b"nonsense")
    with pytest.raises(ConfigurationError, match="is no backup"):
        await restore(settings, damaged)
    assert not settings.state_dir.exists()

    await restore(settings, kept)
    async with reading(settings) as sessions, sessions() as session:
        verification, broken = await audit_repository.verify(session)
    assert broken is None
    assert verification.lines > 3
    async with running(settings) as world:
        assert [user["name"] for user in await world.rest("GET", "/users")] == ["alice"]
        # With the certificate and the authenticator of before.
        async with grpc.aio.secure_channel(settings.agent_address, device.credentials) as channel:
            device.stub = agent_pb2_grpc.AgentServiceStub(channel)
            await anext(device.watch())
            await device.prove()
        [line] = await world.rest("GET", "/audit?action=controller.restore")
        assert line["object"] == f"backup/{manifest.made_at}"


@asynccontextmanager
async def external(directory: Path) -> AsyncGenerator[Callable[[str], str]]:
    """A server with a password and a port, as an organisation has; the URL of a database by its name."""
    port, password = free_port(), secrets.token_urlsafe()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("listen_addresses", "127.0.0.1"), ("port", str(port))):
            patch.setitem(embedded._SETTINGS, name, value)
        server = EmbeddedPostgres(directory)
        await server.start()
    engine = create_engine(f"{server.url}&port={port}").execution_options(isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"ALTER ROLE culvert PASSWORD '{password}'"))
        for name in ("first", "second"):
            await connection.execute(text(f"CREATE DATABASE {name}"))
        access = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (directory / "data/pg_hba.conf").write_text(access)
        await connection.execute(text("SELECT pg_reload_conf()"))
    await engine.dispose()
    try:
        yield lambda name: f"postgresql://culvert:{password}@127.0.0.1:{port}/{name}"
    finally:
        await server.stop()


async def test_a_controller_on_a_database_of_another_host_comes_back_in_another_one(tmp_path: Path) -> None:
    kept = tmp_path / "culvert.tar"
    async with external(tmp_path / "pg") as url:
        first = settings_in(tmp_path / "first", database_url=url("first"))
        second = settings_in(tmp_path / "second", database_url=url("second"))
        async with running(first) as world:
            await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
            device = await world.enrol()
            manifest = await backup(first, kept)
        with pytest.raises(ConfigurationError, match="holds a controller's tables already"):
            await restore(settings_in(tmp_path / "third", database_url=url("first")), kept)
        with pytest.raises(ConfigurationError, match="password authentication failed") as refused:
            await postgres_tools.dump(url("first").replace("culvert:", "culvert:not-"), tmp_path / "dump")
        assert url("first").split(":")[2].split("@")[0] not in str(refused.value)
        await restore(second, kept)
        for file in ("master.key", "device-ca.key"):
            assert (second.state_dir / file).read_bytes() == (first.state_dir / file).read_bytes()
        async with running(second) as world:
            assert [user["name"] for user in await world.rest("GET", "/users")] == ["alice"]
            [line] = await world.rest("GET", "/audit?action=controller.restore")
            assert line["object"] == f"backup/{manifest.made_at}"
            # What was sealed under the master key can be read.
            await device.at(second.agent_address).prove()
