"""Seconds from the commit that changes 1,000 resources at once until BIND answers all their names with the change.

commit ─► NOTIFY ─► culvert-dns-updater ─► UPDATE ─► BIND ◄─ every name asked for, until right
The baseline is nsupdate, which is told the names and the addresses, and only writes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from culvert_db import Database, DnsZone, Resource, bind_database, create_engine, upgrade
from culvert_db.embedded import EmbeddedPostgres
from figures import Figure
from name_server import KEY_NAME, ZONE, Bind
from sqlalchemy import update

NAMES = [f"host-{i}.{ZONE}" for i in range(1000)]
RUNS = 5
# The number of records that surely fits a message of nsupdate's.
BATCH = 200
GIVE_UP_SECONDS = 120.0
UPDATER = Path(sys.executable).with_name("culvert-dns-updater")


async def measure() -> list[Figure]:
    """Raises RuntimeError when the zone does not become equal."""
    with tempfile.TemporaryDirectory() as folder, _bind(Path(folder)) as bind:
        async with EmbeddedPostgres(Path(folder) / "pg") as url:
            engine = create_engine(url)
            await upgrade(engine)
            database = bind_database(engine)
            await _publish(database, bind)
            ours: list[float] = []
            theirs: list[float] = []
            with _updater(url, bind):
                await asyncio.to_thread(_wait, bind, "10.0.0.1")
                for run in range(RUNS):
                    ours.append(await _change(database, bind, f"10.1.{run}.1"))
                    theirs.append(await asyncio.to_thread(_nsupdate, bind, f"10.2.{run}.1"))
            await engine.dispose()
    return [Figure("dns_1000_s", median(ours), "s", "nsupdate", median(theirs))]


async def _publish(database: Database, bind: Bind) -> None:
    limits = {"idle_seconds": 60, "soft_packets": 0, "soft_bytes": 0, "soft_seconds": 0}
    async with database.begin() as session:
        session.add(DnsZone(name="corp", origin=ZONE, server=bind.address, port=bind.port, key=KEY_NAME))
        owner = "bob@corp.example"
        session.add_all(
            Resource(name=n, fqdn=n, targets=_at("10.0.0.1"), owner=owner, **limits) for n in NAMES
        )


async def _change(database: Database, bind: Bind, address: str) -> float:
    async with database.begin() as session:
        await session.execute(update(Resource).values(targets=_at(address)))
        began = time.monotonic()
    await asyncio.to_thread(_wait, bind, address)
    return time.monotonic() - began


def _at(address: str) -> list[dict[str, Any]]:
    return [{"prefix": f"{address}/32"}]


def _wait(bind: Bind, address: str) -> None:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    for name in NAMES:
        while bind.lookup(name, "A") != [address]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} is not at {address} after {GIVE_UP_SECONDS:g} s")
            time.sleep(0.01)


def _nsupdate(bind: Bind, address: str) -> float:
    """The names are host names of another kind, so that nothing of them is the updater's to repair."""
    lines = [f"server {bind.address} {bind.port}", f"zone {ZONE}"]
    for first in range(0, len(NAMES), BATCH):
        for name in NAMES[first : first + BATCH]:
            lines += [f"update delete n-{name} A", f"update add n-{name} 60 A {address}"]
        lines.append("send")
    began = time.monotonic()
    subprocess.run(
        ["nsupdate", "-v", "-k", str(bind.key_file)], input="\n".join(lines) + "\n", text=True, check=True
    )
    return time.monotonic() - began


@contextmanager
def _bind(folder: Path) -> Generator[Bind]:
    bind = Bind(folder / "named")
    bind.start()
    try:
        yield bind
    finally:
        bind.stop()


@contextmanager
def _updater(url: str, bind: Bind) -> Generator[None]:
    env = os.environ | {"CULVERT_DNS_DATABASE_URL": url, "CULVERT_DNS_KEY_DIR": str(bind.key_dir)}
    process = subprocess.Popen([UPDATER, "run"], env=env, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)
