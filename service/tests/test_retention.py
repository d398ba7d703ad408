"""Old lines of the audit log are cut by the setting or the command, and in no other way."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
from pathlib import Path

import long_log
import pytest
from culvert_db import AuditCut
from culvert_service import private_files
from culvert_service.audit import retention
from culvert_service.audit.cut import CutKey
from culvert_service.audit.line import CHAINS
from culvert_service.audit.log import CONTROLLER
from culvert_service.audit.repository import BATCH
from culvert_service.config import ConfigurationError
from culvert_service.operation.commands import cut, verify
from culvert_service.pki.master_key import MasterKey
from long_log import cut_key
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from .conftest import World, running, settings_in
from .test_audit import check_chains

pytestmark = pytest.mark.slow

DAY = datetime.timedelta(days=1)
# Lines of each chain: two and a half batches.
EACH = 5 * BATCH // 2


def ago(days: float) -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) - days * DAY


async def grow(world: World) -> None:
    """Fill the log with EACH lines in each chain, over the last hundred days."""
    await long_log.clear(world.database)
    await long_log.fill(world.database, EACH, since=ago(100), apart=100 * 86400 / EACH)


async def test_cut_lines_are_in_their_export_and_the_rest_verifies(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await grow(world)
    whole = (await world.admin.get("/api/v1/audit/export")).text.splitlines()
    before, file = ago(40), tmp_path / "old.jsonl"
    await cut(world.settings, before, file)
    assert f"its SHA-256 is {hashlib.sha256(file.read_bytes()).hexdigest()}" in capsys.readouterr().out
    assert file.stat().st_mode & 0o777 == 0o600
    gone = [json.loads(line) for line in file.read_text().splitlines()]
    check_chains(gone)
    assert len(gone) == CHAINS * int(EACH * 0.6)
    assert await verify(world.settings)
    left = [json.loads(line) for line in (await world.admin.get("/api/v1/audit/export")).text.splitlines()]
    [told] = [line for line in left if line["action"] == "audit.cut"]
    assert (told["actor"], told["details"]["lines"]) == ("command line", len(gone))
    rest = [line for line in left if line["action"] == "tunnel.open"]
    assert sorted(map(json.dumps, gone + rest)) == sorted(json.dumps(json.loads(line)) for line in whole)
    check_chains(sorted(gone + rest, key=lambda line: (line["chain"], line["seq"])))
    kept = await world.rest("GET", "/audit/retention")
    assert (kept["keep_days"], kept["removed"]) == (None, len(gone))
    assert datetime.datetime.fromisoformat(kept["kept_since"]) == before
    # A second cut follows the first one.
    await cut(world.settings, ago(35), None)
    found = await world.rest("GET", "/audit/verification")
    assert found["broken"] is None
    assert found["lines"] < len(left)


async def test_the_exports_name_is_on_the_disk_before_a_line_is_cut(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await grow(world)
    lines_at_sync: list[int] = []
    sync_directory = private_files.sync_directory

    async def lines() -> int:
        async with world.database() as session:
            return await session.scalar(text("SELECT count(*) FROM audit_lines")) or 0

    loop = asyncio.get_running_loop()

    def synced(directory: Path) -> None:
        assert directory == tmp_path
        sync_directory(directory)
        lines_at_sync.append(asyncio.run_coroutine_threadsafe(lines(), loop).result(30))

    monkeypatch.setattr(private_files, "sync_directory", synced)
    before = await lines()
    await cut(world.settings, ago(40), tmp_path / "old.jsonl")
    assert lines_at_sync == [before]
    assert await lines() < before


async def test_a_cut_does_not_reach_the_last_30_days_and_writes_over_no_file(
    world: World, tmp_path: Path
) -> None:
    await grow(world)
    with pytest.raises(ConfigurationError, match="30 days"):
        await cut(world.settings, ago(29), None)
    taken = tmp_path / "taken"
    taken.write_text("other")
    with pytest.raises(ConfigurationError, match="taken"):
        await cut(world.settings, ago(40), taken)
    assert taken.read_text() == "other"
    assert (await world.rest("GET", "/audit/retention"))["removed"] == 0


async def test_no_call_of_the_api_removes_a_line(world: World) -> None:
    for path in ("", "/export", "/retention", "/verification", "/cuts", "/0/1"):
        for method in ("DELETE", "PATCH", "POST", "PUT"):
            answer = await world.admin.request(
                method, f"/api/v1/audit{path}", json={}, headers={"If-Match": "*"}
            )
            assert answer.status_code in {404, 405}, (method, path, answer.text)


async def test_a_log_that_was_changed_is_not_cut(world: World) -> None:
    await grow(world)
    async with world.database.begin() as session:
        await session.execute(text("ALTER TABLE audit_lines DISABLE TRIGGER USER"))
        await session.execute(text("UPDATE audit_lines SET actor = 'mallory' WHERE chain = 3 AND seq = 700"))
        await session.execute(text("ALTER TABLE audit_lines ENABLE TRIGGER USER"))
    with pytest.raises(ConfigurationError, match="chain 3, line 700"):
        await cut(world.settings, ago(40), None)


_FIVE_DAYS = "cut.before + interval '5 days'"


@pytest.mark.parametrize(
    "change",
    [
        # Each chain has lines 751 to 1,250; lines 1 to 750 were cut.
        "DELETE FROM audit_lines WHERE seq > 1240",
        "DELETE FROM audit_cuts",
        "UPDATE audit_cuts SET seq = seq + 1",
        "TRUNCATE audit_cuts",
    ],
)
async def test_the_database_refuses_a_deletion_that_no_cut_stands_for(world: World, change: str) -> None:
    await grow(world)
    await cut(world.settings, ago(40), None)
    with pytest.raises(DBAPIError, match="append-only"):
        async with world.database.begin() as session:
            await session.execute(text(change))


@pytest.mark.parametrize(
    ("number", "digest", "lines", "before"),
    [
        ("3", "line.hash", "line.seq - cut.seq", _FIVE_DAYS),
        ("2", "'x'", "line.seq - cut.seq", _FIVE_DAYS),
        ("2", "line.hash", "1", _FIVE_DAYS),
        ("2", "line.hash", "line.seq - cut.seq", "cut.before"),
        ("2", "line.hash", "line.seq - cut.seq", "now()"),
    ],
    ids=["number", "hash", "count", "not so old", "of the last days"],
)
async def test_the_database_refuses_a_cut_that_does_not_fit_the_log(
    world: World, number: str, digest: str, lines: str, before: str
) -> None:
    await grow(world)
    await cut(world.settings, ago(40), None)
    change = f"""
        INSERT INTO audit_cuts
        SELECT cut.chain, {number}, line.seq, {digest}, {lines}, {before}, now(), 'x', NULL, ''
        FROM audit_cuts cut JOIN audit_lines line ON line.chain = cut.chain AND line.seq = cut.seq + 20
    """  # noqa: S608
    with pytest.raises(DBAPIError, match="is cut from its beginning"):
        async with world.database.begin() as session:
            await session.execute(text(change))


async def test_a_cut_that_no_controller_signed_is_found(world: World) -> None:
    await grow(world)
    forger = CutKey(MasterKey(bytes(32)))
    await retention.cut(world.database, CONTROLLER, forger, ago(60), ago(0), None)
    broken = (await world.rest("GET", "/audit/verification"))["broken"]
    assert "its cut 1 is not signed by this controller's key" in broken["why"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("DELETE FROM audit_cuts WHERE number = 1 AND chain = 2", "cut 1 is not there"),
        ("DELETE FROM audit_cuts WHERE number = 2 AND chain = 2", "it is not there"),
        ("UPDATE audit_cuts SET seq = seq + 1 WHERE number = 2 AND chain = 2", "cut 2 is not signed"),
        ("DELETE FROM audit_lines WHERE chain = 2", "it is not there"),
    ],
)
async def test_removing_or_moving_a_cut_without_the_triggers_is_found(
    world: World, change: str, why: str
) -> None:
    await grow(world)
    await cut(world.settings, ago(60), None)
    await cut(world.settings, ago(40), None)
    async with world.database.begin() as session:
        for table in ("audit_cuts", "audit_lines"):
            await session.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
        await session.execute(text(change))
    broken = (await world.rest("GET", "/audit/verification"))["broken"]
    assert (broken["chain"], why in broken["why"]) == (2, True), broken


async def test_the_setting_cuts_older_lines_and_writes_their_export(
    tmp_path: Path, database_url: str
) -> None:
    settings = settings_in(tmp_path, database_url=database_url, audit_keep_days=45, audit_export_dir=tmp_path)
    async with running(settings) as world:
        await grow(world)
        keep = datetime.timedelta(days=45)
        rounds = retention.Retention(world.database, cut_key(settings), lambda: ago(0), keep, tmp_path)
        await rounds.round()
        # The next round finds no line that is a day too old.
        await rounds.round()
        kept = await world.rest("GET", "/audit/retention")
        [file] = await asyncio.to_thread(lambda: list(tmp_path.glob("audit-before-*.jsonl")))
        assert (kept["keep_days"], kept["removed"]) == (45, len(file.read_text().splitlines()))
        assert kept["removed"] > CHAINS * BATCH
        assert (await world.rest("GET", "/audit/verification"))["broken"] is None
        async with world.database() as session:
            assert {one.export.hex() for one in await session.scalars(select(AuditCut)) if one.export} == {
                hashlib.sha256(file.read_bytes()).hexdigest()
            }
