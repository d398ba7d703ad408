"""Runs pg_dump and pg_restore of the embedded server's release, which can read databases of all older releases."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from culvert_db import Tls, parse_url
from culvert_db.embedded import binaries

from culvert_service.config import ConfigurationError


async def dump(database_url: str, target: Path) -> None:
    """Write a snapshot in pg_dump's custom format. Raises ConfigurationError."""
    await _run("pg_dump", database_url, "--format=custom", "--no-owner", f"--file={target}")


async def restore(database_url: str, source: Path) -> None:
    """Restore into an empty database in one transaction. Raises ConfigurationError."""
    database = parse_url(database_url).database or ""
    options = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
    await _run("pg_restore", database_url, *options, f"--dbname={database}", str(source))


async def _run(program: str, database_url: str, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        _program(program, database_url),
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


def _program(name: str, database_url: str) -> str:
    """The path of a Postgres program. The programs of the embedded server have no TLS. Raises ConfigurationError."""
    if not Tls.of(parse_url(database_url)).is_required:
        return str(binaries() / name)
    installed = shutil.which(name)
    if installed is None:
        raise ConfigurationError(
            f"{name}, which speaks TLS with the database, is not installed: install PostgreSQL's client programs"
        )
    return installed


def _environment(database_url: str) -> dict[str, str]:
    """libpq's environment variables. The password must not be an argument, which any user of the machine can read."""
    url = parse_url(database_url)
    query = {name: value for name, value in url.query.items() if isinstance(value, str)}
    found = {
        "PGHOST": url.host or query.get("host"),
        "PGPORT": str(url.port) if url.port else query.get("port"),
        "PGUSER": url.username,
        "PGPASSWORD": url.password,
        "PGDATABASE": url.database,
        "PGTARGETSESSIONATTRS": "read-write",
    }
    given = {name: str(value) for name, value in found.items() if value}
    return dict(os.environ) | given | dict(Tls.of(url).environment())
