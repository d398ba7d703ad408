"""Rows that another transaction holds: a call waits for them, or gets DATABASE_BUSY; never DATABASE_DOWN."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from culvert_db import bind_database
from culvert_proto import CulvertError, Reason
from culvert_service.database import HELD_SECONDS, DatabaseBusyError, DatabaseDownError, connect, direct
from sqlalchemy import text

from .test_database_away import driver, one_gateway, postmaster

pytestmark = pytest.mark.slow

_HOLD = "SELECT id FROM devices FOR UPDATE"
_TAKE = text("SELECT pg_advisory_xact_lock(:key)")


def _family(pid: int) -> list[int]:
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


@asynccontextmanager
async def held(url: str) -> AsyncGenerator[None]:
    """An operator's transaction holds the devices' rows."""
    connection = await driver.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(_HOLD)
            yield
    finally:
        await connection.close()


@pytest.mark.long
async def test_a_click_waits_for_a_long_change(tmp_path: Path) -> None:
    async with one_gateway(tmp_path) as (_, postgres, device):
        began = time.monotonic()
        async with held(postgres.url):
            click = asyncio.create_task(device.open())
            await asyncio.sleep(4.0)
        await click
        assert time.monotonic() - began >= 4.0


async def test_clicks_that_wait_in_vain_get_the_reason_and_are_not_logged(tmp_path: Path) -> None:
    async with one_gateway(tmp_path) as (world, postgres, device):
        before = await world.rest("GET", "/audit")
        async with held(postgres.url):
            # The second waits for its turn, too.
            clicks = await asyncio.gather(device.open(), device.open(), return_exceptions=True)
        for refused in clicks:
            assert isinstance(refused, CulvertError)
            assert refused.reason is Reason.DATABASE_BUSY
        assert await world.rest("GET", "/audit") == before
        await device.open()


@pytest.mark.long
async def test_a_frozen_server_is_told_as_down(tmp_path: Path) -> None:
    async with one_gateway(tmp_path) as (_, _postgres, device):
        await device.open()
        pids = _family(postmaster(tmp_path))
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            with pytest.raises(CulvertError) as down:
                await device.open()
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        assert down.value.reason is Reason.DATABASE_DOWN
        assert time.monotonic() - began < HELD_SECONDS


@pytest.mark.long
async def test_a_controller_that_is_stopped_holds_its_rows_for_seconds_only(tmp_path: Path) -> None:
    async with one_gateway(tmp_path) as (_, postgres, device):
        engine = connect(postgres.url)

        async def hold_during_a_click() -> None:
            async with direct(bind_database(engine)) as transaction:
                await transaction.execute(_HOLD)
                await device.open()
                await transaction.commit()

        with pytest.raises(DatabaseDownError):
            await hold_during_a_click()
        await engine.dispose()


async def test_a_change_by_an_administrator_is_ended_with_its_controller_too(database_url: str) -> None:
    engine = connect(database_url)
    async with engine.connect() as connection:
        shown = await connection.scalar(text("SHOW idle_in_transaction_session_timeout"))
    await engine.dispose()
    assert shown == "1min"


async def test_two_changes_that_wait_for_each_other_are_told_as_busy(database_url: str) -> None:
    engine = connect(database_url)
    async with engine.connect() as one, engine.connect() as two:
        keys = {one: (1, 2), two: (2, 1)}
        for each, (first, _) in keys.items():
            await each.execute(_TAKE, {"key": first})
        ends = await asyncio.gather(
            *(each.execute(_TAKE, {"key": second}) for each, (_, second) in keys.items()),
            return_exceptions=True,
        )
    await engine.dispose()
    assert [type(it) for it in ends if isinstance(it, BaseException)] == [DatabaseBusyError]
