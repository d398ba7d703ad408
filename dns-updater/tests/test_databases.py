"""The updater on Postgres as operators run it: a switchover, and a pooler that it cannot use."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from culvert_db import bind_database, create_engine, dns_role, upgrade
from culvert_dns_updater.store import Store, StoreError
from postgres_servers import PGBOUNCER, RELEASES, Server, pair, pgbouncer

from .name_server import Bind
from .world import PASSWORD, World, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WIKI = "wiki.corp.example"


async def test_changes_are_published_after_a_switchover_told_once(
    tmp_path: Path, bind: Bind, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with pair(tmp_path / "pg", RELEASES[0]) as (first, second):
        url = f"postgresql://culvert@/postgres?host=127.0.0.1:{first.port}&host=127.0.0.1:{second.port}"
        engine = create_engine(url)
        await upgrade(engine)
        await dns_role.prepare(engine, url, PASSWORD)
        world = World(url, bind_database(engine), tmp_path)
        await world.publish_to(bind)
        async with world.running(bind, lease_seconds=1) as updater:
            await first.stop()
            await until(lambda: not updater.is_ready())
            # The old primary is back first, as a standby of nothing yet: it answers reads and takes no writes.
            first.follow(second)
            await first.start()
            await asyncio.sleep(3)
            assert not updater.is_ready()
            await second.promote()
            await until(updater.is_ready)
            await engine.dispose()
            await world.put({WIKI: "10.20.0.10"})
            await until(lambda: bind.lookup(WIKI, "A") == ["10.20.0.10"])
        await engine.dispose()
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    # The kinds of the outage: it shuts down, nothing listens, it is read-only.
    assert 1 <= told.count("the database does not answer") <= 4


@pytest.mark.skipif(PGBOUNCER is None, reason="needs PgBouncer")
async def test_a_pooler_of_transactions_is_refused_in_a_sentence(tmp_path: Path) -> None:
    server = Server(tmp_path / "server", RELEASES[0])
    await server.make("--encoding=UTF8")
    await server.start()
    try:
        async with pgbouncer(tmp_path / "pooler", server, "transaction") as port:
            store = Store(f"postgresql://culvert@127.0.0.1:{port}/postgres", "test", lease_seconds=60)
            with pytest.raises(StoreError, match=r"pool_mode=transaction.* Remedy: "):
                await store.claim()
            await store.close()
    finally:
        await server.stop()
