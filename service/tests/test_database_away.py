"""Outages of the database: a call gets DATABASE_DOWN, or succeeds because the controller repeated it."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from asyncpg import DataError, PostgresError
from culvert_db import create_engine, dns_role, why_away
from culvert_db.embedded import EmbeddedPostgres
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason
from culvert_service.controller.database import make_engine
from culvert_service.database import HELD_SECONDS, connect, repeat
from culvert_service.gateways import link
from culvert_service.tasks import Periodic
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from .conftest import (
    PATIENCE_SECONDS,
    Device,
    World,
    next_event,
    running,
    serving,
    settings_in,
    until,
)
from .switch import Switch
from .test_faults import opens

# asyncpg has no type stubs.
driver: Any = importlib.import_module("asyncpg")
slow = pytest.mark.slow

# max_connections of the embedded Postgres.
_CONNECTIONS_MAX = 100
_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> ALL (CAST(:mine AS int[]))
"""


class _Told(Exception):  # noqa: N818
    """An error with Postgres's code, like the driver's errors."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    "sqlstate", ["08000", "08006", "08003", "25006", "53100", "53300", "57P01", "57P02", "57P03"]
)
def test_a_database_outage_is_recognised_by_its_sqlstate(sqlstate: str) -> None:
    assert why_away(_Told(sqlstate))
    assert why_away(DBAPIError("SELECT 1", None, _Told(sqlstate)))


@pytest.mark.parametrize("sqlstate", ["23505", "28P01", "3D000", "40001", "57014", "22021", "XX001"])
def test_an_error_that_a_retry_cannot_mend_is_a_fault(sqlstate: str) -> None:
    assert why_away(_Told(sqlstate)) is None


def test_a_value_that_the_driver_refuses_is_a_fault() -> None:
    assert why_away(DataError("invalid input for query argument $1")) is None


@dataclass
class Use:
    """The number of successful calls, and the reasons of the failed calls."""

    made: int = 0
    refused: list[str] = field(default_factory=list[str])


@asynccontextmanager
async def one_gateway(tmp_path: Path) -> AsyncGenerator[tuple[World, EmbeddedPostgres, Device]]:
    """A controller beside a Postgres of its own, and a device that may open the wiki."""
    async with one_switch(tmp_path, Switch()) as (world, postgres, device):
        yield world, postgres, device


@asynccontextmanager
async def one_switch(
    tmp_path: Path, switch: Switch
) -> AsyncGenerator[tuple[World, EmbeddedPostgres, Device]]:
    """As one_gateway, with this switch."""
    postgres, port = EmbeddedPostgres(tmp_path / "pg"), free_port()
    async with (
        postgres as url,
        running(settings_in(tmp_path, database_url=url, agent_calls_per_second=1000)) as world,
    ):
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        await world.add_gateway("gw-berlin", port)
        async with serving(world, switch, "gw-berlin", port):
            await world.online("gw-berlin")
            await world.add_wiki(["gw-berlin"])
            device = await world.enrol()
            await device.prove()
            yield world, postgres, device


def postmaster(tmp_path: Path) -> int:
    return int((tmp_path / "pg/data/postmaster.pid").read_text().split("\n", 1)[0])


async def backends(url: str) -> list[int]:
    """As soon as the server takes connections: it may be in recovery from the death before."""
    asked = text(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    engine = create_engine(url)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with suppress(DBAPIError, OSError):
                    async with engine.connect() as connection:
                        return [row.pid for row in await connection.execute(asked)]
                await asyncio.sleep(0.1)
    finally:
        await engine.dispose()


@asynccontextmanager
async def under_use(world: World, device: Device) -> AsyncGenerator[Use]:
    """Open tunnels and read over REST in a loop."""
    use, stop = Use(), asyncio.Event()

    async def clicks() -> None:
        while not stop.is_set():
            try:
                await device.open()
                use.made += 1
            except CulvertError as error:
                use.refused.append(error.reason.name)
            await asyncio.sleep(0.02)

    async def reads() -> None:
        while not stop.is_set():
            answer = await world.admin.get("/api/v1/tunnels")
            if answer.is_success:
                use.made += 1
            else:
                use.refused.append(answer.json()["reason"])
            await asyncio.sleep(0.02)

    using = [asyncio.create_task(each()) for each in (clicks, reads)]
    yield use
    stop.set()
    await asyncio.gather(*using)


@slow
async def test_callers_do_not_notice_that_connections_end(tmp_path: Path) -> None:
    async with one_gateway(tmp_path) as (world, postgres, device):
        async with under_use(world, device) as use:
            for _ in range(10):
                # A call is rightly refused if it loses its connection each time: let calls succeed between two rounds.
                made = use.made
                while use.made < made + 4:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                engine = create_engine(postgres.url)
                async with engine.connect() as connection:
                    pid = await connection.scalar(text("SELECT pg_backend_pid()"))
                    await connection.execute(text(_END_OTHERS), {"mine": [pid]})
                await engine.dispose()
        assert use.made > 10
        assert use.refused == []


@pytest.mark.long
@slow
async def test_dying_backends_and_servers_cause_no_internal_error(
    tmp_path: Path,
) -> None:
    async with one_gateway(tmp_path) as (world, postgres, device):
        async with under_use(world, device) as use:
            for round_ in range(6):
                await asyncio.sleep(0.5)
                victim = postmaster(tmp_path) if round_ % 3 == 2 else (await backends(postgres.url))[0]
                os.kill(victim, signal.SIGKILL)
                await until(lambda: world.anyone.get("/readyz"), lambda answer: answer.status_code == 200)
        # A commit that broke off may have been done: until the gateway is reconciled it can refuse what rests on it.
        assert set(use.refused) <= {"DATABASE_DOWN", "GATEWAY_DOWN", "GATEWAY_REFUSED"}
        await world.online("gw-berlin")
        await opens(device)


@slow
async def test_a_lasting_outage_is_told_as_database_down_and_ends_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(link, "_RECONCILE_SECONDS", 0.5)
    async with one_gateway(tmp_path) as (world, postgres, device):
        caplog.clear()
        await postgres.stop()
        heard: set[str] = set()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            with suppress(CulvertError):
                await device.open()
            try:
                await device.open()
            except CulvertError as error:
                heard.add(error.reason.name)
            for method, path in (("GET", "/api/v1/tunnels"), ("DELETE", "/api/v1/resources/wiki")):
                heard.add((await world.admin.request(method, path)).json()["reason"])
        assert heard == {Reason.DATABASE_DOWN.name}
        await postgres.start()
        await until(lambda: world.anyone.get("/readyz"), lambda answer: answer.status_code == 200)
        await device.open()
        assert "gateway is offline" not in caplog.messages


@slow
async def test_a_server_that_accepts_and_says_nothing_is_waited_for_once() -> None:
    """As behind a stopped HAProxy. A second wait would outlast the device's patience."""
    accepted: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    engine = connect(f"postgresql+asyncpg://culvert@127.0.0.1:{port}/culvert?ssl=disable")

    async def ask() -> None:
        async with engine.connect() as connection:
            await connection.execute(text("SELECT 1"))

    began = time.monotonic()
    with pytest.raises(CulvertError) as refused:
        await repeat(ask)
    assert refused.value.reason is Reason.DATABASE_DOWN
    assert time.monotonic() - began < HELD_SECONDS + 1
    await engine.dispose()
    for writer in accepted:
        writer.close()
    silent.close()


@slow
async def test_a_soft_limit_during_an_outage_is_told_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(link, "_RECONCILE_SECONDS", 0.5)
    switch = Switch()
    async with one_switch(tmp_path, switch) as (world, postgres, device):
        opened = await device.open()
        entries = await world.rest("GET", "/gateways/gw-berlin/entries")
        sa_id = next(it["match"]["sa_id"] for it in entries["entries"] if it["table"] == "sad_out")
        caplog.clear()
        await postgres.stop()
        switch.digest("soft_limit_t", sa_id, 1)
        # The round that cannot read it ends after the time that a call is held.
        await asyncio.sleep(HELD_SECONDS + 1)
        assert "gateway link failed" not in caplog.messages
        events = device.watch()
        await postgres.start()
        await ready(world)
        expiring = (await next_event(events, "sa_expiring")).sa_expiring
        assert (expiring.tunnel_id, expiring.generation) == (opened.tunnel.tunnel_id, 1)
        assert "gateway is offline" not in caplog.messages


async def ready(world: World) -> None:
    await until(lambda: world.anyone.get("/readyz"), lambda answer: answer.status_code == 200)


@pytest.mark.long
@slow
async def test_a_server_without_free_connections_is_told_as_database_down(tmp_path: Path) -> None:
    async with one_gateway(tmp_path) as (world, postgres, device):
        held: list[Any] = []
        while len(held) < _CONNECTIONS_MAX:
            try:
                held.append(await driver.connect(postgres.url))
            except PostgresError:
                # The controller has the others.
                mine = [connection.get_server_pid() for connection in held]
                await held[0].execute(_END_OTHERS.replace(":mine", "$1"), mine)
        answer = await world.admin.get("/api/v1/tunnels")
        assert answer.json()["reason"] == "DATABASE_DOWN"
        assert (await world.anyone.get("/readyz")).json()["checks"] == {
            "database": "it has too many connections"
        }
        for connection in held:
            connection.terminate()
        await ready(world)
        await device.open()


async def test_the_embedded_server_leaves_connections_for_an_operator(cluster: str) -> None:
    engine = make_engine(cluster)
    async with engine.connect() as connection:
        most = int(await connection.scalar(text("SHOW max_connections")) or 0)
    await engine.dispose()
    pool = cast("QueuePool", engine.pool)
    assert most - pool.size() - pool._max_overflow - dns_role._CONNECTIONS >= 10


@slow
async def test_a_database_that_takes_no_writes_is_not_ready(tmp_path: Path) -> None:
    """A primary that became a standby still answers every read."""
    async with one_gateway(tmp_path) as (world, postgres, device):
        assert (await world.anyone.get("/readyz")).status_code == 200
        await _everywhere(postgres.url, "ALTER SYSTEM SET default_transaction_read_only = on")
        await until(
            lambda: world.anyone.get("/readyz"),
            lambda answer: answer.json().get("checks") == {"database": "it is read-only"},
        )
        with pytest.raises(CulvertError) as down:
            await device.open()
        assert down.value.reason is Reason.DATABASE_DOWN
        assert (await world.anyone.get("/healthz")).status_code == 200
        await _everywhere(postgres.url, "ALTER SYSTEM RESET default_transaction_read_only")
        await until(lambda: world.anyone.get("/readyz"), lambda answer: answer.status_code == 200)
        await device.open()


async def by_driver(url: str, *statements: str) -> None:
    """By an operator: our own connections are to a server that takes writes."""
    connection = await driver.connect(url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def _everywhere(url: str, setting: str) -> None:
    await by_driver(url, setting, "SELECT pg_reload_conf()")


async def test_stuck_work_fails_the_health_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("culvert_service.tasks._STUCK_SECONDS", 0.05)
    goes_on = asyncio.Event()
    work = Periodic("looks", goes_on.wait, 0.0)
    assert not work.is_stuck
    work.start()
    await asyncio.sleep(0.2)
    assert work.is_stuck
    goes_on.set()
    await asyncio.sleep(0.02)
    assert not work.is_stuck
    await work.stop()
    assert not work.is_stuck


class _Failing:
    """Fails in each `every`-th round, until `rounds` are over."""

    def __init__(self, every: int, rounds: int) -> None:
        self._every = every
        self._left = rounds
        self.over = asyncio.Event()

    async def work(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.over.set()
        if self._left % self._every == 0:
            raise CulvertError(Reason.DATABASE_DOWN)


async def test_a_fault_of_every_other_round_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    failing = _Failing(2, rounds=10)
    work = Periodic("looks", failing.work, 0.0)
    work.start()
    await failing.over.wait()
    await work.stop()
    assert [record.getMessage() for record in caplog.records] == ["a round failed"]


async def test_a_fault_that_returns_is_logged_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("culvert_service.tasks._ABSENT_SECONDS", 0.05)
    failing = _Failing(1, rounds=2)
    work = Periodic("looks", failing.work, 0.1)
    work.start()
    await failing.over.wait()
    await work.stop()
    assert [record.getMessage() for record in caplog.records] == ["a round failed", "a round failed"]


async def test_a_cancelled_statement_is_cancelled_and_is_no_outage(database_url: str) -> None:
    engine = connect(database_url)
    sleeping = text("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'")

    async def sleeps() -> None:
        async with engine.connect() as connection:
            await connection.execute(text("SELECT pg_sleep(600)"))

    async def found() -> int:
        async with engine.connect() as connection:
            return (await connection.execute(sleeping)).scalar_one()

    task = asyncio.create_task(repeat(sleeps))
    await until(found, lambda count: count == 1)
    task.cancel()
    await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
    assert task.cancelled()
    await until(found, lambda count: count == 0)
    await engine.dispose()


@slow
async def test_a_watch_whose_device_leaves_ends_while_it_waits_for_the_database(
    world: World, switch: Switch, database_url: str
) -> None:
    device = await world.enrol()
    events = device.watch()
    await next_event(events, "profile")
    engine = create_engine(database_url)
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'policies'::regclass")
    async with engine.connect() as holds, engine.connect() as looks:
        await holds.execute(text("LOCK TABLE policies IN ACCESS EXCLUSIVE MODE"))

        async def found() -> int:
            return (await looks.execute(waiting)).scalar_one()

        # The gateway's end changes the device's profile.
        switch.silent = True
        await until(found, lambda count: count >= 1)

        async def calls() -> list[str]:
            return [it for it in map(repr, asyncio.all_tasks()) if "_Call._run" in it]

        assert len(await calls()) == 1
        await device.channel.close()
        await until(calls, lambda under_way: under_way == [])
    await engine.dispose()
