"""A controller that is backed up while it serves, lost, and restored elsewhere: its devices notice nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import grpc.aio
import pytest
from culvert_proto import agent_pb2_grpc
from culvert_service.audit import repository as audit_repository
from culvert_service.config import ConfigurationError
from culvert_service.controller import reading
from culvert_service.operation.backup import backup, restore

from .conftest import running, settings_in

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
