"""Fixtures: a real BIND 9, and a real Postgres with Culvert's tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from culvert_db import create_engine, upgrade
from culvert_db.embedded import EmbeddedPostgres

from .name_server import NameServer


@pytest.fixture
def name_server(tmp_path: Path) -> Iterator[NameServer]:
    server = NameServer(tmp_path / "named")
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def database_url(tmp_path: Path) -> AsyncIterator[str]:
    async with EmbeddedPostgres(tmp_path / "pg") as url:
        engine = create_engine(url)
        await upgrade(engine)
        await engine.dispose()
        yield url
