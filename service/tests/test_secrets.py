"""No secret rests in the database in plain text, and none is logged."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from culvert_db import Base, create_engine
from culvert_service.controller.database import open_database
from sqlalchemy import make_url, select, text
from sqlalchemy.exc import DBAPIError

from .conftest import World, make_csr, settings_in
from .log_watch import spellings
from .switch import Switch

pytestmark = pytest.mark.slow


async def dump(world: World) -> str:
    """Every row of every table, as text."""
    rows: list[str] = []
    async with world.database() as session:
        for table in Base.metadata.sorted_tables:
            found = await session.execute(
                select(text("row_to_json(t)::text")).select_from(text(f"{table.name} t"))
            )
            rows += [f"{table.name} {row[0]}" for row in found]
    return "\n".join(rows)


async def test_no_secret_is_stored_or_logged(
    world: World, switch: Switch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="culvert_service")
    caplog.set_level(logging.DEBUG, logger="sqlalchemy")
    secrets: set[str] = set()

    bundle = await world.rest("POST", "/gateways/gw-berlin/bundle")
    secrets |= spellings(base64.b64decode(bundle["kek"])) | {bundle["key_pem"].splitlines()[1]}

    token = (await world.invite()).token
    body = {"token": token, "device_name": "x", "csr_pem": make_csr()[1]}
    await world.anyone.post("/api/v1/enrolments", json=body | {"csr_pem": "nonsense"})
    await world.anyone.post("/api/v1/enrolments", json={"token": {"not": token}})
    await world.anyone.post("/api/v1/enrolments", json=body)
    secrets.add(token)

    device = await world.enrol()
    totp = parse_qs(urlsplit(device.totp_uri).query)["secret"][0]
    secrets |= spellings(base64.b32decode(totp)) | {totp}
    await device.prove()

    opened = await device.open()
    renewed = await device.renew(opened.tunnel.tunnel_id, opened.sas.generation)
    for pair in (opened.sas, renewed):
        for sa in (pair.inbound, pair.outbound):
            secrets |= spellings(sa.key) | spellings(sa.key[:32])

    secrets.add((world.settings.state_dir / "admin-token").read_text().strip())
    stored = await dump(world)
    logged = caplog.text + json.dumps([str(vars(record)) for record in caplog.records])
    assert "security_associations" in stored
    assert "tunnel opened" in logged
    for secret in secrets:
        assert secret not in stored
        assert secret not in logged


async def test_files_with_secrets_are_the_owners_alone(world: World) -> None:
    state = world.settings.state_dir
    names = (
        "admin-token",
        "database-url",
        "master.key",
        "infrastructure-ca.key",
        "gateway-ca.key",
        "device-ca.key",
    )
    for name in names:
        assert (state / name).stat().st_mode & 0o777 == 0o600, name
    assert state.stat().st_mode & 0o777 == 0o700
    # The server's own key was there for as long as it took to read it.
    assert not list(state.glob("*rest*"))


async def test_dns_updater_is_handed_a_role_of_its_own(world: World) -> None:
    handed = (world.settings.state_dir / "database-url").read_text().strip()
    assert make_url(handed).username == f"{make_url(handed).database}_dns"
    engine = create_engine(handed)
    async with engine.connect() as connection:
        await connection.execute(text("SELECT id FROM dns_zones"))
        with pytest.raises(DBAPIError, match="permission denied for table admins"):
            await connection.execute(text("SELECT * FROM admins"))
    await engine.dispose()


async def test_dns_updater_is_never_handed_the_owners_rights(cluster: str, tmp_path: Path) -> None:
    """If the owner may not make the role, the URL of an earlier start is deleted."""
    engine = create_engine(cluster).execution_options(isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text("CREATE ROLE plain LOGIN"))
        await connection.execute(text("CREATE DATABASE of_plain OWNER plain"))
    await engine.dispose()
    url = make_url(cluster).set(username="plain", database="of_plain").render_as_string()
    settings = settings_in(tmp_path, database_url=url)
    settings.state_dir.mkdir(mode=0o700, exist_ok=True)
    (settings.state_dir / "database-url").write_text(url)
    async with open_database(settings):
        assert not (settings.state_dir / "database-url").exists()
