"""resources in Postgres → the updater → records in BIND: all three real."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

import pytest
from culvert_db import DnsRecord, DnsState, Resource, Sessions, create_engine, create_sessions, upgrade
from culvert_db.embedded import EmbeddedPostgres
from culvert_dns_updater import cli
from culvert_dns_updater.settings import Settings
from culvert_dns_updater.store import Store
from culvert_dns_updater.updater import Outcome, Updater
from sqlalchemy import select

from .name_server import ZONE, NameServer

pytestmark = pytest.mark.slow

WIKI = "wiki.corp.example"
MARK = ['"ipsec-tunneling:yes"']


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[Sessions]:
    engine = create_engine(database_url)
    yield create_sessions(engine)
    await engine.dispose()


@pytest.fixture
def settings(name_server: NameServer, database_url: str) -> Settings:
    return _settings(name_server, database_url)


def _settings(name_server: NameServer, database_url: str) -> Settings:
    return Settings.model_validate(
        {
            "database_url": database_url,
            "server": name_server.address,
            "port": name_server.port,
            "zones": [ZONE],
            "key_file": name_server.key_file,
            "timeout_seconds": 2,
        }
    )


@pytest.fixture
async def updater(settings: Settings) -> AsyncIterator[Updater]:
    store = Store(settings.database())
    yield Updater(store, settings.make_zones())
    await store.close()


async def _put(sessions: Sessions, fqdn: str, address: str) -> None:
    async with sessions.begin() as session:
        resource = await session.scalar(select(Resource).where(Resource.fqdn == fqdn))
        if resource is not None:
            resource.address = address
        else:
            limits = {"idle_seconds": 60, "soft_packets": 0, "soft_bytes": 0, "soft_seconds": 0}
            session.add(Resource(name=fqdn, fqdn=fqdn, address=address, owner="bob@corp.example", **limits))


async def _delete(sessions: Sessions, fqdn: str) -> None:
    async with sessions.begin() as session:
        await session.delete((await session.scalars(select(Resource).where(Resource.fqdn == fqdn))).one())


async def _rows(sessions: Sessions) -> dict[tuple[str, str], DnsRecord]:
    async with sessions() as session:
        return {(row.name, row.type): row for row in await session.scalars(select(DnsRecord))}


async def _until(condition: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  another process's state: there is no event to wait for
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def _running(updater: Updater, poll: float) -> AsyncGenerator[None]:
    task = asyncio.create_task(updater.run(poll))
    try:
        yield
    finally:
        updater.stop()
        async with asyncio.timeout(10):
            await task


async def test_a_resource_is_published_moved_and_withdrawn(
    updater: Updater, sessions: Sessions, name_server: NameServer
) -> None:
    await _put(sessions, WIKI, "10.20.0.10")
    assert await updater.run_once() is Outcome.LIVE
    assert name_server.lookup(WIKI, "A") == ["10.20.0.10"]
    assert name_server.lookup(WIKI, "TXT") == MARK
    assert {key: row.state for key, row in (await _rows(sessions)).items()} == {
        (WIKI, "A"): DnsState.LIVE,
        (WIKI, "TXT"): DnsState.LIVE,
    }

    await _put(sessions, WIKI, "2001:db8::10")
    assert await updater.run_once() is Outcome.LIVE
    assert name_server.lookup(WIKI, "A") == []
    assert name_server.lookup(WIKI, "AAAA") == ["2001:db8::10"]
    assert set(await _rows(sessions)) == {(WIKI, "AAAA"), (WIKI, "TXT")}

    await _delete(sessions, WIKI)
    assert await updater.run_once() is Outcome.LIVE
    for name, rtype in [(WIKI, "AAAA"), (WIKI, "TXT"), (f"_culvert-owner.{WIKI}", "TXT")]:
        assert name_server.lookup(name, rtype) == []
    assert await _rows(sessions) == {}
    assert name_server.lookup("mail.corp.example", "A") == ["192.0.2.25"]


async def test_a_change_is_published_at_once(
    updater: Updater, sessions: Sessions, name_server: NameServer
) -> None:
    async with _running(updater, poll=3600):
        await asyncio.sleep(0.5)
        await _put(sessions, WIKI, "10.20.0.10")
        await _until(lambda: name_server.lookup(WIKI, "A") == ["10.20.0.10"], seconds=2)


async def test_a_foreign_name_is_left_alone(
    updater: Updater, sessions: Sessions, name_server: NameServer
) -> None:
    await _put(sessions, "mail.corp.example", "10.20.0.25")
    await _put(sessions, WIKI, "10.20.0.10")
    assert await updater.run_once() is Outcome.INCOMPLETE
    assert name_server.lookup("mail.corp.example", "A") == ["192.0.2.25"]
    assert name_server.lookup("mail.corp.example", "TXT") == ['"kept by hand"']
    assert name_server.lookup(WIKI, "A") == ["10.20.0.10"]
    row = (await _rows(sessions))["mail.corp.example", "A"]
    assert (row.state, row.reason) == (DnsState.REFUSED, "DNS_RECORD_FOREIGN")
    assert row.remedy is not None
    assert "Delete them in the zone" in row.remedy

    await _delete(sessions, "mail.corp.example")
    assert await updater.run_once() is Outcome.LIVE
    assert name_server.lookup("mail.corp.example", "A") == ["192.0.2.25"]


async def test_a_race_with_an_administrator_does_no_harm(
    updater: Updater, sessions: Sessions, name_server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The administrator adds the name between our reading and our writing."""
    zone = updater.zones[0]
    send = zone._send

    async def late_send(*arguments: object) -> object:
        await asyncio.to_thread(name_server.edit, (WIKI, "A", "192.0.2.99"))
        return await send(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(zone, "_send", late_send)
    await _put(sessions, WIKI, "10.20.0.10")
    assert await updater.run_once() is Outcome.INCOMPLETE
    assert name_server.lookup(WIKI, "A") == ["192.0.2.99"]
    assert (await _rows(sessions))[WIKI, "A"].reason == "DNS_RECORD_FOREIGN"


async def test_a_wrong_key_is_refused_and_a_right_one_needs_no_restart(
    updater: Updater, sessions: Sessions, name_server: NameServer
) -> None:
    await _put(sessions, WIKI, "10.20.0.10")
    right = name_server.spoil_key()
    assert await updater.run_once() is Outcome.FAILED
    row = (await _rows(sessions))[WIKI, "A"]
    assert (row.state, row.reason, row.attempts) == (DnsState.REFUSED, "DNS_UPDATE_REFUSED", 1)
    assert "BADSIG" in (row.message or "")
    assert "Check the TSIG key" in (row.remedy or "")

    name_server.key_file.write_text(right)
    assert await updater.run_once() is Outcome.LIVE
    row = (await _rows(sessions))[WIKI, "A"]
    assert (row.state, row.reason, row.message, row.attempts) == (DnsState.LIVE, None, None, 0)
    assert name_server.lookup(WIKI, "A") == ["10.20.0.10"]


async def test_a_refused_update_is_told_and_tried_again(
    updater: Updater, sessions: Sessions, name_server: NameServer
) -> None:
    """The key may transfer the zone but not change it."""
    name_server.stop()
    name_server.configure(update_policy="allow-update { none; };")
    name_server.start()
    await _put(sessions, WIKI, "10.20.0.10")
    assert await updater.run_once() is Outcome.FAILED
    row = (await _rows(sessions))[WIKI, "TXT"]
    assert (row.state, row.reason) == (DnsState.REFUSED, "DNS_UPDATE_REFUSED")
    assert "REFUSED" in (row.message or "")

    name_server.stop()
    name_server.configure(update_policy="allow-update { key culvert-dns; };")
    name_server.start()
    assert await updater.run_once() is Outcome.LIVE


async def test_a_server_that_was_down_is_caught_up_with(
    updater: Updater, sessions: Sessions, name_server: NameServer
) -> None:
    name_server.stop()
    await _put(sessions, WIKI, "10.20.0.10")
    async with _running(updater, poll=3600):
        await asyncio.sleep(0.5)
        row = (await _rows(sessions))[WIKI, "A"]
        assert (row.state, row.reason) == (DnsState.PENDING, "DNS_UPDATE_UNREACHABLE")
        name_server.start()
        await _until(lambda: name_server.lookup(WIKI, "A") == ["10.20.0.10"])


async def test_a_name_outside_of_the_zones_is_refused(updater: Updater, sessions: Sessions) -> None:
    await _put(sessions, "wiki.other.example", "10.20.0.10")
    assert await updater.run_once() is Outcome.INCOMPLETE
    row = (await _rows(sessions))["wiki.other.example", "A"]
    assert (row.state, row.reason) == (DnsState.REFUSED, "REQUEST_INVALID")


async def test_the_command_line_makes_one_pass_and_says_how_it_went(
    settings: Settings,
    sessions: Sessions,
    name_server: NameServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "database-url").write_text(settings.database())
    config = tmp_path / "updater.toml"
    config.write_text(
        f'database_url_file = "{tmp_path}/database-url"\nserver = "{name_server.address}"\n'
        f'port = {name_server.port}\nzones = ["{ZONE}"]\nkey_file = "{name_server.key_file}"\n'
    )
    await _put(sessions, WIKI, "10.20.0.10")
    once = ["once", "--config", str(config)]
    assert await asyncio.to_thread(cli.main, once) == 0
    assert name_server.lookup(WIKI, "TXT") == MARK
    name_server.stop()
    assert await asyncio.to_thread(cli.main, once) == 1
    name_server.key_file.chmod(0o644)
    assert await asyncio.to_thread(cli.main, once) == 2
    assert "chmod 600" in capfd.readouterr().err
    name_server.key_file.chmod(0o600)
    (tmp_path / "database-url").write_text("postgresql://culvert:hunter2@127.0.0.1:1/culvert")
    assert await asyncio.to_thread(cli.main, once) == 3
    assert "hunter2" not in capfd.readouterr().err


async def test_a_database_that_was_down_is_caught_up_with(name_server: NameServer, tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "pg")
    async with postgres as url:
        engine = create_engine(url)
        await upgrade(engine)
        settings = _settings(name_server, url)
        store = Store(url)
        async with _running(Updater(store, settings.make_zones()), poll=3600):
            await asyncio.sleep(0.5)
            await engine.dispose()
            await postgres.stop()
            await asyncio.sleep(1.5)
            await postgres.start()
            await _put(create_sessions(engine), WIKI, "10.20.0.10")
            await _until(lambda: name_server.lookup(WIKI, "A") == ["10.20.0.10"])
            # Changes are told again, too.
            await asyncio.sleep(1)
            await _put(create_sessions(engine), WIKI, "10.20.0.11")
            await _until(lambda: name_server.lookup(WIKI, "A") == ["10.20.0.11"], seconds=2)
        await store.close()
        await engine.dispose()


async def test_the_daemon_stops_on_sigterm(settings: Settings, name_server: NameServer) -> None:
    env = {
        "CULVERT_DNS_DATABASE_URL": settings.database(),
        "CULVERT_DNS_SERVER": name_server.address,
        "CULVERT_DNS_PORT": str(name_server.port),
        "CULVERT_DNS_ZONES": ZONE,
        "CULVERT_DNS_KEY_FILE": str(name_server.key_file),
    }
    program = "import sys; from culvert_dns_updater.cli import main; sys.exit(main(['run']))"
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env=env, stderr=asyncio.subprocess.PIPE
    )
    assert daemon.stderr is not None
    async with asyncio.timeout(20):
        said = b""
        while b"names live" not in said:
            line = await daemon.stderr.readline()
            said += line
            assert line, f"the daemon ended: {said.decode()}"
        daemon.terminate()
        assert await daemon.wait() == 0
