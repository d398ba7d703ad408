"""Verification and export of a log that is much longer than one batch."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import socket
import ssl
from collections.abc import AsyncGenerator

import long_log
import pytest
from culvert_proto import Reason
from culvert_service.audit import export
from culvert_service.audit.line import CHAINS
from culvert_service.audit.log import CONTROLLER, Line
from culvert_service.audit.repository import BATCH, SEARCHED_MAX
from culvert_service.audit.transaction import begin
from culvert_service.operation.commands import verify
from sqlalchemy import text

from .conftest import World, until
from .test_audit import check_chains

pytestmark = pytest.mark.slow

READERS = 45
# Lines of each chain: two and a half batches.
EACH = 5 * BATCH // 2


async def test_every_batch_is_verified_over_rest_and_on_the_command_line(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await long_log.fill(world.database, EACH)
    found = await world.rest("GET", "/audit/verification")
    assert found["broken"] is None
    assert found["lines"] == sum(end["seq"] for end in found["ends"]) > CHAINS * EACH
    assert await verify(world.settings)
    assert "lines are as they were written" in capsys.readouterr().out
    async with world.database.begin() as session:
        await session.execute(text("ALTER TABLE audit_lines DISABLE TRIGGER USER"))
        change = "UPDATE audit_lines SET actor = 'mallory' WHERE chain = 7 AND seq = :seq"
        await session.execute(text(change), {"seq": 2 * BATCH + 1})
        await session.execute(text("ALTER TABLE audit_lines ENABLE TRIGGER USER"))
    broken = (await world.rest("GET", "/audit/verification"))["broken"]
    assert (broken["chain"], broken["seq"]) == (7, 2 * BATCH + 1)


async def test_a_search_reads_a_bounded_number_of_lines_and_goes_on(world: World) -> None:
    await world.rest(
        "POST", "/users", {"name": "zoe", "email": "z@corp.example", "display_name": "Zoë Winter"}
    )
    await long_log.fill(world.database, 2 * SEARCHED_MAX // CHAINS)
    url, pages = "/api/v1/audit?q=%C3%AB%20wint", list[list[str]]()
    while url:
        answer = await world.admin.get(url)
        assert answer.elapsed < datetime.timedelta(seconds=5)
        pages.append([line["object"] for line in answer.json()])
        url = answer.links.get("next", {}).get("url", "")
    assert pages == [[], [], ["user/zoe"]]
    # A name that many lines have fills pages, as in any list.
    full = await world.admin.get("/api/v1/audit?q=iki&limit=5")
    further = await world.admin.get(full.links["next"]["url"])
    lines = [(line["chain"], line["seq"]) for line in full.json() + further.json()]
    assert (len(lines), len(set(lines))) == (10, 10)


async def test_the_export_has_every_batch_and_proves_itself(world: World) -> None:
    await long_log.fill(world.database, EACH)
    answer = await world.admin.get("/api/v1/audit/export")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert len(lines) > CHAINS * EACH
    check_chains(lines)
    some = await world.admin.get("/api/v1/audit/export?action=tunnel.open")
    assert len(some.text.splitlines()) == CHAINS * EACH


async def test_lines_written_meanwhile_break_no_verification_or_export(world: World) -> None:
    await long_log.fill(world.database, EACH)
    written = 0

    async def write() -> None:
        nonlocal written
        while True:
            async with begin(world.database, CONTROLLER) as transaction:
                transaction.audit(Line("user.create", f"user/{written}"))
            written += 1

    writing = [asyncio.create_task(write()) for _ in range(4)]
    before = written
    found = await world.rest("GET", "/audit/verification")
    answer = await world.admin.get("/api/v1/audit/export")
    assert written > before
    for task in writing:
        task.cancel()
    await asyncio.gather(*writing, return_exceptions=True)
    assert found["broken"] is None
    check_chains([json.loads(line) for line in answer.text.splitlines()])


async def test_a_stray_chain_and_a_removed_end_of_a_chain_are_found(world: World) -> None:
    async with world.database.begin() as session:
        await session.execute(text("ALTER TABLE audit_lines DISABLE TRIGGER USER"))
        copied = "INSERT INTO audit_lines SELECT {0} FROM audit_lines ORDER BY at LIMIT 1"
        rest = "at, actor_kind, actor, source, action, object, outcome, reason, why, details, hash"
        await session.execute(text(copied.format(f"99, 1, {rest}")))
    broken = (await world.rest("GET", "/audit/verification"))["broken"]
    assert (broken["chain"], broken["why"]) == (99, "nothing appends to this chain")
    async with world.database.begin() as session:
        await session.execute(text("DELETE FROM audit_lines WHERE chain = 99"))
        await session.execute(text(copied.format(f"chain, 0, {rest}")))
    broken = (await world.rest("GET", "/audit/verification"))["broken"]
    assert broken["seq"] == 0


@contextlib.asynccontextmanager
async def silent_reader(world: World) -> AsyncGenerator[tuple[str, asyncio.StreamReader]]:
    """A client that reads only the status line of an export's answer."""
    host, port = world.settings.rest_listen.split(":")
    near = socket.socket()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    near.setblocking(False)
    await asyncio.get_running_loop().sock_connect(near, (host, int(port)))
    tls = ssl.create_default_context(cafile=str(world.settings.state_dir / "infrastructure-ca.pem"))
    reader, writer = await asyncio.open_connection(sock=near, ssl=tls, server_hostname=host, limit=4096)
    bearer = world.admin.headers["Authorization"]
    writer.write(f"GET /api/v1/audit/export HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer}\r\n\r\n".encode())
    try:
        yield (await reader.readline()).decode(), reader
    finally:
        writer.transport.abort()


async def test_silent_export_readers_are_cut_off_and_free_their_places(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await long_log.fill(world.database, 3 * EACH)
    monkeypatch.setattr(export, "TAKEN_SECONDS", 2.0)
    device = await world.enrol()
    async with contextlib.AsyncExitStack() as stack:
        opened = await asyncio.gather(
            *(stack.enter_async_context(silent_reader(world)) for _ in range(READERS))
        )
        statuses = sorted(status.split()[1] for status, _ in opened)
        assert statuses.count("200") <= export.MOST
        assert set(statuses) == {"200", "429"}
        await device.prove()
        for _ in range(READERS):
            await world.rest("GET", "/audit?limit=5")
        assert (await world.admin.get("/api/v1/audit/export?actor=nobody")).status_code == 429

        async def once_more() -> tuple[int, str]:
            answer = await world.admin.get("/api/v1/audit/export?actor=nobody")
            if answer.status_code == 429:
                assert answer.json()["reason"] == Reason.EXPORTS_UNDER_WAY.name
                assert int(answer.headers["Retry-After"]) > 0
            return answer.status_code, answer.text

        # The readers are still connected, and their places are free.
        assert await until(once_more, lambda found: found[0] == 200) == (200, "")
