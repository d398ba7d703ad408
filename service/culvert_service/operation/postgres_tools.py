"""pg_dump and pg_restore of the release that the embedded server is of, which read every older one's databases."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from culvert_db.embedded import binaries
from sqlalchemy import make_url

from culvert_service.config import ConfigurationError


async def dump(database_url: str, target: Path) -> None:
    """In pg_dump's own format: one moment of the database. Raises ConfigurationError."""
    await _run("pg_dump", database_url, "--format=custom", "--no-owner", f"--file={target}")


async def restore(database_url: str, source: Path) -> None:
    """All of it or nothing, into an empty database. Raises ConfigurationError."""
    database = make_url(database_url).database or ""
    options = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
    await _run("pg_restore", database_url, *options, f"--dbname={database}", str(source))


async def _run(program: str, database_url: str, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        str(binaries() / program),
        *arguments,
        env=_environment(database_url),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    if process.returncode != 0:
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        raise ConfigurationError(f"{program} failed: {''.join(last) or 'it said nothing'}")


def _environment(database_url: str) -> dict[str, str]:
    """libpq's; the password is in no argument, which any user of the machine may read."""
    url = make_url(database_url)
    query = {name: value for name, value in url.query.items() if isinstance(value, str)}
    found = {
        "PGHOST": url.host or query.get("host"),
        "PGPORT": str(url.port) if url.port else query.get("port"),
        "PGUSER": url.username,
        "PGPASSWORD": url.password,
        "PGDATABASE": url.database,
        "PGSSLMODE": query.get("sslmode") or query.get("ssl"),
    }
    return dict(os.environ) | {name: str(value) for name, value in found.items() if value}
