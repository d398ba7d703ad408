"""A backup of a controller in one file: a snapshot of its database, and the keys that decrypt its secrets.

backup.tar ── manifest.json   when, of which revision, and the SHA-256 of each file
            ├ database.dump   pg_dump's custom format
            └ state/…         CA keys, master key, admin token

The file is as secret as the state directory: with it anybody can impersonate the controller.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from culvert_db import bind_database, create_engine, newest_revision, upgrade
from culvert_db.embedded import EmbeddedPostgres
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service import private_files
from culvert_service.audit.line import Detail
from culvert_service.audit.log import CONTROLLER, Line
from culvert_service.audit.transaction import begin
from culvert_service.config import ConfigurationError, Settings
from culvert_service.identity import totp
from culvert_service.operation import postgres_tools, repository

_FORMAT = 1
_MANIFEST, _DUMP, _STATE = "manifest.json", "database.dump", "state/"
# Left out, because a controller writes them at each start.
_NOT_KEPT = frozenset({"database-url"})


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """Counts by name. `void`: credentials that the restore deleted; `back`: rows that are again as in the backup."""

    made_at: str
    void: dict[str, int]
    back: dict[str, int]


@dataclass(frozen=True, slots=True)
class Manifest:
    format: int
    made_at: str
    revision: str
    sha256: dict[str, str]


async def backup(settings: Settings, target: Path) -> Manifest:
    """Back up, whether a controller runs or not; `target` gets mode 0600. Raises ConfigurationError."""
    # Find an unwritable directory before the database is read.
    with private_files.name_directory_in_errors(target.parent):
        beside = tempfile.TemporaryDirectory(prefix=".culvert-", dir=target.parent)
    with beside as directory:
        dumped = Path(directory) / _DUMP
        async with _find_database(settings) as url:
            revision = await _revision(url)
            await postgres_tools.dump(url, dumped)
        files = {_DUMP: dumped.read_bytes()}
        for file in sorted(settings.state_dir.iterdir()):
            if file.is_file() and file.name not in _NOT_KEPT and not file.name.startswith("."):
                files[_STATE + file.name] = file.read_bytes()
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    manifest = Manifest(_FORMAT, datetime.now(UTC).isoformat(timespec="seconds"), revision, digests)
    packed = _pack({_MANIFEST: json.dumps(asdict(manifest), indent=2).encode()} | files)
    if private_files.read_or_make(target, lambda: packed) != packed:
        raise ConfigurationError(f"{target} exists already")
    return manifest


async def restore(settings: Settings, source: Path) -> RestoreReport:
    """Restore into a state directory without keys and a database without tables. Raises ConfigurationError.

    Deletes credentials that may have been used or revoked since the backup, and uses up all codes until now.
    """
    manifest, files = _unpack(source)
    if manifest.revision > (ours := newest_revision()):
        raise ConfigurationError(
            f"{source} is of a newer release (revision {manifest.revision}; this one is {ours}). Remedy: restore it with "
            "the release that made it, or with a newer one"
        )
    state = settings.state_dir
    private_files.check_writable(state)
    kept = {name.removeprefix(_STATE): content for name, content in files.items() if name != _DUMP}
    if taken := sorted(name for name in kept if (state / name).exists()):
        raise ConfigurationError(f"state_dir: {state} belongs to a controller already: it holds {taken[0]}")
    async with _empty_database(settings) as url:
        with tempfile.TemporaryDirectory(prefix=".culvert-", dir=state) as directory:
            dumped = Path(directory) / _DUMP
            dumped.write_bytes(files[_DUMP])
            await postgres_tools.restore(url, dumped)
        engine = create_engine(url)
        try:
            await upgrade(engine)
            async with begin(bind_database(engine), CONTROLLER) as transaction:
                session = transaction.session
                restored = RestoreReport(
                    manifest.made_at, await _void(session), await repository.count_restored(session)
                )
                details: dict[str, Detail] = {
                    _key(what): count for what, count in (restored.void | restored.back).items()
                }
                transaction.audit(Line("controller.restore", f"backup/{manifest.made_at}", details))
        finally:
            await engine.dispose()
        for name, content in kept.items():
            private_files.write(state / name, content)
    return restored


async def _void(session: AsyncSession) -> dict[str, int]:
    counts = await repository.delete_credentials(session)
    step = int(datetime.now(UTC).timestamp()) // totp.STEP_SECONDS + totp.DRIFT_STEPS
    await repository.use_up_codes(session, step)
    await repository.forget_proofs(session)
    return counts


def _key(what: str) -> str:
    return what.lower().replace("'", "").replace(" ", "_")


@asynccontextmanager
async def _find_database(settings: Settings) -> AsyncGenerator[str]:
    if settings.database_sessions_url is not None:
        yield settings.database_sessions_url
        return
    embedded = EmbeddedPostgres(settings.state_dir / "postgres")
    if not embedded.exists:
        raise ConfigurationError(f"state_dir: {settings.state_dir} holds no database")
    if embedded.serves:
        yield embedded.url
    else:
        async with embedded as url:
            yield url


@asynccontextmanager
async def _empty_database(settings: Settings) -> AsyncGenerator[str]:
    if (url := settings.database_sessions_url) is not None:
        if await _revision(url):
            raise ConfigurationError("database_url: the database holds a controller's tables already")
        yield url
        return
    directory = settings.state_dir / "postgres"
    embedded = EmbeddedPostgres(directory)
    if embedded.exists:
        raise ConfigurationError(f"state_dir: {settings.state_dir} holds a database already")
    try:
        async with embedded as url:
            yield url
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


async def _revision(url: str) -> str:
    """The database's revision; empty without Culvert's tables."""
    engine = create_engine(url)
    try:
        async with engine.connect() as connection:
            return await repository.revision(connection)
    finally:
        await engine.dispose()


def _pack(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _unpack(source: Path) -> tuple[Manifest, dict[str, bytes]]:
    """Unpack, and check that names and digests are exactly the manifest's. Raises ConfigurationError."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(source) as archive:
            for entry in archive:
                file = archive.extractfile(entry) if entry.isreg() else None
                if file is not None:
                    files[entry.name] = file.read()
        told: dict[str, Any] = json.loads(files.pop(_MANIFEST))
        manifest = Manifest(**told)
    except (tarfile.TarError, KeyError, ValueError, TypeError):
        raise ConfigurationError(f"{source} is no backup") from None
    if manifest.format != _FORMAT or _DUMP not in files:
        raise ConfigurationError(f"{source} is a backup of a format that this version does not know")
    if {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} != manifest.sha256:
        raise ConfigurationError(f"{source} is damaged")
    for name in files:
        plain = name.removeprefix(_STATE)
        if name != _DUMP and (plain == name or "/" in plain or plain.startswith(".")):
            raise ConfigurationError(f"{source} is no backup")
    return manifest, files
