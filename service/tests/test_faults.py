"""Break the surroundings of a controller, on real parts: no row or entry is orphaned, and tunnels that can survive do.

device ── controllers ──┬── Postgres            restarts, dies
           clocks jump  └── proxy ── sluice     the link flaps
"""

from __future__ import annotations

import asyncio
import datetime
import os
import secrets
import signal
import time
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from culvert_db.embedded import EmbeddedPostgres
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason
from sqlalchemy import func, select

from .agreement import agreed
from .conftest import (
    PATIENCE_SECONDS,
    Device,
    World,
    administering,
    refused,
    running,
    settings_in,
    until,
)
from .copying import copy
from .gateway_process import needs_root, sluice, unpack
from .test_controllers import behind, entries, owned, process
from .test_rotation import shown
from .wire import Wires

pytestmark = [
    pytest.mark.slow,
    needs_root,
]


# The library of Debian's package faketime; the loader replaces $LIB by the machine's library directory.
FAKETIME = "/usr/$LIB/faketime/libfaketime.so.1"
ALMOST = datetime.timedelta(minutes=1)


async def opens(device: Device, seconds: float = PATIENCE_SECONDS) -> Any:
    """As a client does: again and again, until it may."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await device.open()
        except CulvertError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


async def consistent(world: World, tunnels: int) -> None:
    """The gateway and the database hold the same tunnels, and this many."""
    await until(lambda: tunnel_ids(world), lambda found: len(found) == tunnels)
    await agreed(world, await tunnel_ids(world))


async def tunnel_ids(world: World) -> set[str]:
    return {tunnel["id"] for tunnel in await world.rest("GET", "/tunnels")}


async def test_postgres_dies_and_comes_back(wires: Wires, tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "pg")
    one = settings_in(tmp_path, database_url=postgres.url, controller_name="one")
    two = settings_in(tmp_path, database_url=postgres.url, controller_name="two")
    async with postgres, running(one) as first, behind(first, wires, tmp_path), running(two) as second:
        device = await second.enrol()
        await device.prove()
        opened = await device.open()
        held = await entries(first)
        lock = (tmp_path / "pg/data/postmaster.pid").read_text()
        os.kill(int(lock.split("\n", 1)[0]), signal.SIGKILL)
        await postgres.stop()
        with pytest.raises(CulvertError) as down:
            await device.open()
        assert down.value.reason is Reason.DATABASE_DOWN
        assert (await first.admin.get("/api/v1/resources")).json()["reason"] == "DATABASE_DOWN"
        await postgres.start()
        # Not even the first to ask finds a connection that is broken.
        for world in (first, second):
            await world.rest("GET", "/resources")
        owner = await until(
            lambda: _gateway(second), lambda found: found is not None and found["state"] == "online", 30
        )
        at = first if owner["owner"] == "one" else second
        assert await entries(at) == held
        assert await tunnel_ids(at) == {opened.tunnel.tunnel_id}
        # One of the two does not own the gateway, and must send its tunnels to the owner.
        for world in (first, second):
            other = await world.enrol()
            await other.prove()
            await opens(other)
        await consistent(at, 3)


async def _gateway(world: World) -> dict[str, Any] | None:
    answer = await world.admin.get("/api/v1/gateways/gw-berlin")
    return answer.json() if answer.is_success else None


class Proxy:
    """A way to the gateway that can be cut."""

    def __init__(self, to: int) -> None:
        self.to = to
        self._open: set[asyncio.StreamWriter] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far = await asyncio.open_connection("127.0.0.1", self.to)
            self._open |= {writer, far}
            await asyncio.gather(copy(reader, far), copy(far_reader, writer))

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()


async def test_the_p4runtime_link_flaps(world: World, wires: Wires, tmp_path: Path) -> None:
    port = free_port()
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    await world.add_gateway("gw-berlin", server.sockets[0].getsockname()[1])
    await world.add_wiki(["gw-berlin"])
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    async with sluice(tmp_path / "gateway", wires.names, port):
        await world.online("gw-berlin")
        quiet = await world.enrol()
        await quiet.prove()
        before = (await quiet.open()).tunnel.tunnel_id
        busy = await world.enrol()
        await busy.prove()

        async def use() -> None:
            while True:
                opened = await opens(busy)
                with suppress(CulvertError):
                    await busy.close(opened.tunnel.tunnel_id)

        using = asyncio.create_task(use())
        for _ in range(5):
            await asyncio.sleep(0.1 + secrets.randbelow(10) / 10)
            proxy.cut()
        using.cancel()
        await asyncio.gather(using, return_exceptions=True)
        await world.online("gw-berlin")
        opened = await opens(busy)
        assert await tunnel_ids(world) == {before, opened.tunnel.tunnel_id}
        await consistent(world, 2)
        renewed = await quiet.renew(before, 1)
        await quiet.activate(before, renewed.generation)
        await consistent(world, 2)
    server.close()


async def test_a_controllers_clock_jumps(
    database_url: str, wires: Wires, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = datetime.timedelta()
    monkeypatch.setattr(
        "culvert_service.controller.lifecycle.now", lambda: datetime.datetime.now(datetime.UTC) + wrong
    )
    # Ages of keys are looked at with each reconciliation.
    monkeypatch.setattr("culvert_service.gateways.link._RECONCILE_SECONDS", 0.5)
    settings = settings_in(tmp_path, database_url=database_url, controller_name="one")
    async with running(settings) as world, behind(world, wires, tmp_path):
        epoch = await owned(world, "one")
        device = await world.enrol()
        await device.prove()
        opened = (await device.open()).tunnel.tunnel_id
        other = await world.enrol()
        # Beyond the life of keys, and to before the tunnel was opened.
        for hours in (3, 1, -1, -3, 0):
            wrong = datetime.timedelta(hours=hours)
            await asyncio.sleep(1)
            if hours:
                assert (await refused(other.prove(other.code()))).reason is Reason.CODE_WRONG
            renewed = (await device.open()).sas
            assert (await owned(world, "one"), await tunnel_ids(world)) == (epoch, {opened})
            again = await device.renew(opened, renewed.generation)
            await device.activate(opened, again.generation)
        other.use_authenticator(other.totp_uri)
        await other.prove()
        await other.open()
        await consistent(world, 2)


async def test_a_controllers_clock_jumps_beyond_the_life_of_certificates(
    database_url: str, wires: Wires, tmp_path: Path
) -> None:
    settings, skew = (
        settings_in(tmp_path, database_url=database_url, controller_name="one"),
        tmp_path / "skew",
    )
    skew.write_text("+0")
    async with AsyncExitStack() as rest:
        async with running(settings) as world:
            await rest.enter_async_context(behind(world, wires, tmp_path))
        with faked(skew):
            await rest.enter_async_context(process(settings))
        world = await rest.enter_async_context(administering(settings, world.database))
        await owned(world, "one")
        device = await world.enrol()
        await device.prove()
        await device.open()
        for days in ("+500d", "+0"):
            before = await shown(settings.rest_listen)
            skew.write_text(days)
            await until(lambda: shown(settings.rest_listen), lambda found, before=before: found != before)
        device.connect()
        # Meanwhile the code was an old one.
        opened = await opens(device)
        renewed = await device.renew(opened.tunnel.tunnel_id, opened.sas.generation)
        await device.activate(opened.tunnel.tunnel_id, renewed.generation)
        other = await world.enrol()
        await other.prove()
        await opens(other)
        await consistent(world, 2)


async def test_the_databases_clock_is_wrong_and_jumps(wires: Wires, tmp_path: Path) -> None:
    postgres, skew = EmbeddedPostgres(tmp_path / "pg"), tmp_path / "skew"
    skew.write_text("+7m")
    with faked(skew):
        await postgres.start()
    settings = settings_in(tmp_path, database_url=postgres.url, controller_name="one", lease_seconds=1)
    async with AsyncExitStack() as rest:
        rest.push_async_callback(postgres.stop)
        world = await rest.enter_async_context(running(settings))
        await rest.enter_async_context(behind(world, wires, tmp_path))
        epoch = await owned(world, "one")
        device = await world.enrol()
        await device.prove()
        opened = (await device.open()).tunnel.tunnel_id
        for minutes in (-7, 7, 0):
            skew.write_text(f"{minutes:+}m")
            assert abs(await ahead(world) - datetime.timedelta(minutes=minutes)) < ALMOST
            # Several renewals of the lease.
            await asyncio.sleep(settings.lease_seconds)
            renewed = (await device.open()).sas
            assert (await owned(world, "one"), await tunnel_ids(world)) == (epoch, {opened})
            again = await device.renew(opened, renewed.generation)
            await device.activate(opened, again.generation)
        other = await world.enrol()
        await other.prove()
        await other.open()
        await consistent(world, 2)


@contextmanager
def faked(skew: Path) -> Generator[None]:
    """The clock of what is started meanwhile is ahead by what the file says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", FAKETIME)
        patch.setenv("FAKETIME_TIMESTAMP_FILE", str(skew))
        patch.setenv("FAKETIME_NO_CACHE", "1")
        patch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        yield


async def ahead(world: World) -> datetime.timedelta:
    """The database's clock, of ours."""
    async with world.database() as session:
        now = await session.scalar(select(func.now()))
    assert now is not None
    return now - datetime.datetime.now(datetime.UTC)
