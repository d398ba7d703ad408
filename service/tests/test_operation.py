"""The commands of an operator: add a gateway and a person on a running controller, and ask the doctor about faults."""

from __future__ import annotations

import datetime
import os
import socket
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from culvert_db.embedded import EmbeddedPostgres
from culvert_lab.free_port import free_port
from culvert_service.config import ConfigurationError
from culvert_service.controller.lifecycle import now
from culvert_service.operation import administration, commands
from culvert_service.operation.commands import doctor
from culvert_service.operation.doctor import certificate_ends_at
from culvert_service.operation.rest_client import CallRefusedError
from culvert_service.pki.authority import Authority
from sqlalchemy import text

from .conftest import World, serving, settings_in
from .switch import Switch

pytestmark = pytest.mark.slow

GATEWAY = """
name = "gw-berlin"
address = "198.51.100.1"
p4runtime = "127.0.0.1:{port}"
pool = "10.99.1.0/24"
wan = {{ port = 1, mac = "02:00:00:00:01:01", next_hop_mac = "02:00:00:00:01:02" }}

[lan]
port = 2
mac = "02:00:00:00:02:01"
address = "10.20.0.1"
prefix = "10.20.0.0/16"
neighbours = {{ "10.20.0.10" = "02:00:00:00:02:10" }}
"""


async def findings(world: World, capsys: pytest.CaptureFixture[str], *, well: bool = False) -> list[str]:
    capsys.readouterr()
    assert await doctor(world.settings) == well
    return [line for line in capsys.readouterr().out.splitlines() if not line.endswith(" ok")]


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root mounts a disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "culvert-test", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


async def test_no_key_is_made_that_cannot_be_kept(world: World, tmp_path: Path, small_disk: Path) -> None:
    await world.add_gateway("gw-berlin", free_port())
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "file" / "bundle", small_disk / "bundle"):
        with pytest.raises(OSError, match=r"Not a directory|No space left"):
            await administration.write_bundle(world.settings, "gw-berlin", target)
        with pytest.raises(OSError, match=r"Not a directory|No space left"):
            await commands.issue_reader(world.settings, target)
    assert list((small_disk / "bundle").iterdir()) == []
    for action in ("gateway.bundle", "gateway.reader"):
        assert await world.rest("GET", f"/audit?action={action}") == [], action


async def test_a_first_set_up(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, description = world.settings, tmp_path / "gateway.toml"
    await administration.add_user(settings, "bob", "bob@corp.example")
    await administration.invite_user(settings, "bob")
    assert "/enroll#" in capsys.readouterr().out
    with pytest.raises(CallRefusedError, match="mallory does not exist"):
        await administration.invite_user(settings, "mallory")
    await administration.list_invitations(settings)
    number, *rest = capsys.readouterr().out.split()
    assert rest[:3] == ["bob", "by", "admin-token"]
    await administration.withdraw_invitation(settings, int(number))
    with pytest.raises(CallRefusedError, match=f"invitation {number} does not exist"):
        await administration.withdraw_invitation(settings, int(number))
    description.write_text("name = ")
    with pytest.raises(ConfigurationError, match=r"gateway\.toml"):
        await administration.add_gateway(settings, description)
    assert await findings(world, capsys, well=True) == []
    description.write_text(GATEWAY.format(port=free_port()))
    await administration.add_gateway(settings, description)
    await administration.list_gateways(settings)
    assert "gw-berlin" in capsys.readouterr().out
    await administration.write_bundle(settings, "gw-berlin", tmp_path / "bundle")
    assert {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "bundle").iterdir()} == {
        "controller-ca.pem": 0o600,
        "gateway.pem": 0o600,
        "gateway.key": 0o600,
        "kek.bin": 0o600,
    }
    [offline, remedy] = await findings(world, capsys)
    assert offline.startswith("gateway gw-berlin ")
    assert "bundle is the newest" in remedy

    description.write_text('pool = "10.98.0.0/24"')
    await administration.change_gateway(settings, "gw-berlin", description)
    assert (await world.rest("GET", "/gateways/gw-berlin"))["pool"] == "10.98.0.0/24"

    state, master = settings.state_dir, settings.state_dir / "master.key"
    key = master.read_bytes()
    master.write_bytes(bytes(32))
    (state / "admin-token").rename(state / "away")
    assert any("admin-token is not there" in line for line in await findings(world, capsys))
    (state / "away").rename(state / "admin-token")
    assert any(line.startswith("master key") for line in await findings(world, capsys))
    master.write_bytes(key)
    master.chmod(0o644)
    assert any("others may read" in line for line in await findings(world, capsys))
    master.chmod(0o600)
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    await world.rest("POST", "/dns/zones", zone)
    assert any(line.startswith("DNS zone corp ") for line in await findings(world, capsys))
    await world.rest("DELETE", "/dns/zones/corp")
    await administration.remove_gateway(settings, "gw-berlin")
    assert await world.rest("GET", "/gateways") == []
    async with world.database.begin() as session:
        await session.execute(text("ALTER TABLE audit_lines DISABLE TRIGGER USER"))
        await session.execute(text("UPDATE audit_lines SET actor = 'nobody' WHERE action = 'user.invite'"))
    assert any(line.startswith("audit log") for line in await findings(world, capsys))


async def test_the_doctor_warns_of_a_gateways_certificate_before_it_ends(
    world: World, switch: Switch, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await findings(world, capsys, well=True) == []
    monkeypatch.setattr("culvert_service.operation.doctor._BUNDLE_SOON", datetime.timedelta(days=398))
    certificate, remedy = await findings(world, capsys)
    assert certificate.split() == ["certificate", "of", "gw-berlin", "it", "ends", "in", "396", "days"]
    assert "gateway bundle gw-berlin" in remedy


async def test_the_doctor_says_what_is_wrong_with_a_gateways_certificate(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    await world.add_gateway("gw-paris", free_port(), 2)
    async with serving(world, Switch(), "gw-paris", port):
        found = await findings(world, capsys)
    [certificate] = [line for line in found if line.startswith("certificate of ")]
    assert certificate.startswith("certificate of gw-berlin ")
    assert "not valid for 'gw-berlin'" in certificate


async def test_a_gateways_certificate_is_read_though_its_first_address_is_silent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, found = free_port(), socket.getaddrinfo

    def lookup(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        hosts = ("127.0.0.2", "127.0.0.1") if host == "gw.example" else (host,)
        return [one for it in hosts for one in found(it, port, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    await world.add_gateway("gw-berlin", port)
    trusted = Authority.load(world.settings.state_dir, "gateway").trusted_pem
    with ExitStack() as stack:
        # With its queue full, a listener answers no attempt to connect.
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.2", port))
        listener.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(("127.0.0.2", port))
        async with serving(world, Switch(), "gw-berlin", port):
            assert await certificate_ends_at(f"gw.example:{port}", "gw-berlin", trusted) > now()


async def test_the_doctor_says_why_the_embedded_database_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_in(tmp_path)
    directory = settings.state_dir / "postgres"
    directory.mkdir(parents=True)
    async with EmbeddedPostgres(directory):
        pass
    (directory / "data/PG_VERSION").write_text("17\n")
    assert not await doctor(settings)
    assert "belong to another release of Postgres" in capsys.readouterr().out
