"""A controller that is backed up while it serves, lost, and restored elsewhere: its devices notice nothing."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest
from culvert_db import Admin, Totp, create_engine, embedded, migrate, newest_revision
from culvert_db.embedded import EmbeddedPostgres
from culvert_lab.free_port import free_port
from culvert_proto import Reason, agent_pb2_grpc
from culvert_service.audit import verifier
from culvert_service.config import ConfigurationError
from culvert_service.controller.database import open_for_reading
from culvert_service.operation import backup as operation_backup
from culvert_service.operation import commands as operation
from culvert_service.operation import postgres_tools
from culvert_service.operation.backup import backup, restore
from long_log import cut_key
from pyotp import parse_uri
from sqlalchemy import text, update

from .authenticator import Authenticator
from .conftest import make_csr, refused, running, settings_in
from .test_admins import PASSWORD, browser, refusal, signed_in

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
    async with open_for_reading(settings) as database:
        found = await verifier.verify(database, cut_key(settings))
    assert found.broken is None
    assert found.lines > 3
    async with running(settings) as world:
        assert [user["name"] for user in await world.rest("GET", "/users")] == ["alice"]
        # With the certificate and the authenticator of before.
        async with grpc.aio.secure_channel(settings.agent_address, device.credentials) as channel:
            device.stub = agent_pb2_grpc.AgentServiceStub(channel)
            await anext(device.watch())
            assert (await refused(device.prove())).reason is Reason.CODE_USED
            async with world.database.begin() as session:
                await session.execute(update(Totp).values(last_used_step=0))
            await device.prove()
        [line] = await world.rest("GET", "/audit?action=controller.restore")
        assert line["object"] == f"backup/{manifest.made_at}"


async def test_a_backup_is_restored_by_the_next_release_and_by_none_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, kept, scripts = settings_in(tmp_path / "first"), tmp_path / "culvert.tar", tmp_path / "next"
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        await backup(settings, kept)
    shutil.rmtree(settings.state_dir)
    with monkeypatch.context() as patch:
        patch.setattr(operation_backup, "newest_revision", lambda: "0001")
        with pytest.raises(ConfigurationError, match=r"of a newer release .* Remedy: restore it with"):
            await restore(settings, kept)
    assert not settings.state_dir.exists()
    shutil.copytree(migrate._SCRIPTS, scripts)
    (scripts / "versions/9001_next.py").write_text(
        f"from alembic import op\nrevision, down_revision = '9001', {newest_revision()!r}\n"
        "def upgrade(): op.execute('ALTER TABLE users ADD COLUMN of_the_next_release text')\n"
    )
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "BESIDE", newest_revision())
        patch.setattr(migrate, "_SCRIPTS", scripts)
        await restore(settings, kept)
    # This release serves on it: the way back.
    async with running(settings) as world:
        assert [user["name"] for user in await world.rest("GET", "/users")] == ["alice"]
        async with world.database() as session:
            assert await session.scalar(text("SELECT version_num FROM alembic_version")) == "9001"


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


async def test_a_controller_is_restored_from_one_external_database_to_another(tmp_path: Path) -> None:
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
            # The restored controller can decrypt with its master key.
            async with world.database.begin() as session:
                await session.execute(update(Totp).values(last_used_step=0))
            await device.at(second.agent_address).prove()


async def test_a_restore_voids_credentials_used_or_revoked_since_the_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, kept = settings_in(tmp_path / "first"), tmp_path / "culvert.tar"
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        device = await world.enrol()
        # These are unused when the backup is made.
        token, invited = (
            await world.invite(),
            await world.rest("POST", "/admins/invitations", {"role": "owner"}),
        )
        api = (await world.rest("POST", "/tokens", {"name": "ci", "scopes": ["write"]}))["token"]
        async with signed_in(world, "ada", "owner") as ada:
            proof = {"password": PASSWORD, "code": ada.code()}
            codes = (await ada.ask("POST", "/session/recovery-codes", proof)).json()["codes"]
            begun = await ada.ask("POST", "/session/authenticator", {"password": PASSWORD, "code": codes[0]})
            pending = {"pending": begun.json()["pending"]}
            options = (await ada.ask("POST", "/session/passkeys/options")).json()
            made = Authenticator(settings.rest_url).create(options)
            await backup(settings, kept)
        # After the backup they are used or revoked.
        code = device.code()
        await device.prove(code)
        device_codes = await world.rest("GET", "/devices")
        assert device_codes[0]["code_valid_until"] is not None
        # The authenticator's code of this moment: a later one would be new when the restored controller is asked.
        ada._spent = 0
        spent = (proof["code"], ada.code(), codes[1])
    shutil.rmtree(settings.state_dir)
    await operation.restore(settings, kept)
    said = capsys.readouterr().out
    for what in (
        "1 API tokens",
        "1 administrators' invitations",
        "9 administrators' recovery codes",
        "1 devices",
    ):
        assert f"     {what}" in said, said
    async with running(settings) as world, browser(world, "eve") as eve:
        assert refusal(await eve.set_up(invited["token"])) == (403, "INVITATION_INVALID")
        bearer = {"Authorization": f"Bearer {api}"}
        assert refusal(await world.anyone.get("/api/v1/users", headers=bearer)) == (
            401,
            "ADMIN_TOKEN_INVALID",
        )
        _, csr = make_csr()
        body = {"token": token.token, "device_name": "laptop", "csr_pem": csr}
        assert refusal(await world.anyone.post("/api/v1/enrolments", json=body)) == (
            403,
            "INVITATION_INVALID",
        )
        async with browser(world, "ada") as again:
            again.client.cookies.update(ada.client.cookies)
            again.csrf, again._totp = ada.csrf, ada._totp
            assert refusal(await again.ask("GET", "/session")) == (401, "SESSION_INVALID")
            for code_before in spent:
                assert refusal(await again.sign_in(code=code_before)) == (401, "SIGN_IN_WRONG")
            async with world.database.begin() as session:
                await session.execute(update(Admin).values(last_used_step=0))
            again._spent = 0
            assert (await again.sign_in()).status_code == 200
            first = parse_uri(begun.json()["totp_uri"])
            pending["code"] = str(cast("Any", first).now())
            stale = await again.ask("PUT", "/session/authenticator", pending)
            assert refusal(stale) == (422, "REQUEST_INVALID")
            answer = await again.ask("POST", "/session/passkeys", {"name": "x", "credential": made})
            assert refusal(answer) == (401, "PASSKEY_REFUSED")
        # The device that was revoked after the backup is back, but opens nothing without a new code.
        [shown] = await world.rest("GET", "/devices")
        assert (shown["state"], shown["code_valid_until"]) == ("pending", None)
        assert (await refused(device.at(settings.agent_address).prove(code))).reason is Reason.CODE_USED
        [line] = await world.rest("GET", "/audit?action=controller.restore")
        assert (line["details"]["api_tokens"], line["details"]["devices"]) == (1, 1)
