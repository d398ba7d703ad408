"""Retention of the audit log: lines older than a limit are exported to a file (if wanted), and then cut. The history of
decisions, which is as old at most, goes with it.

verified ──► exported ──► one transaction: a signed record for each chain, its lines deleted, a line about it
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from culvert_db import AuditCut, Database

from culvert_service import private_files
from culvert_service.audit import repository, verifier
from culvert_service.audit.cut import CutKey
from culvert_service.audit.export import jsonl
from culvert_service.audit.line import Broken, timestamp
from culvert_service.audit.log import CONTROLLER, Actor, Line
from culvert_service.audit.repository import Filter
from culvert_service.audit.transaction import begin
from culvert_service.decision.repository import forget_history
from culvert_service.tasks import Periodic

# The database also refuses a cut of younger lines.
KEPT_DAYS_LEAST = 30
_LOOK_SECONDS = 3600.0


class LogBrokenError(Exception):
    """A line that was to be cut has been changed. Nothing was cut: the lines stay as evidence."""

    def __init__(self, broken: Broken) -> None:
        super().__init__(f"chain {broken.chain}, line {broken.seq}: {broken.why}")


class ExportRefusedError(Exception):
    """The file cannot be written; nothing was cut."""


@dataclass(frozen=True, slots=True)
class Done:
    """The number of lines that were cut, and the SHA-256 of their export, if there is one."""

    lines: int
    export: bytes | None


class Retention:
    """`keep` None keeps all lines. `exports` is the directory for exports of the lines that are cut."""

    def __init__(
        self,
        database: Database,
        key: CutKey,
        now: Callable[[], datetime.datetime],
        keep: datetime.timedelta | None,
        exports: Path | None,
    ) -> None:
        self._database = database
        self._key = key
        self._now = now
        self._keep = keep
        self._exports = exports
        self._rounds = Periodic("retention of the audit log", self.round, _LOOK_SECONDS)

    async def start(self) -> None:
        self._rounds.start()

    async def stop(self) -> None:
        await self._rounds.stop()

    async def round(self) -> None:
        """Cut when the oldest line is a day older than `keep`, so once a day at most."""
        if self._keep is None:
            return
        before = self._now() - self._keep
        async with self._database.begin() as session:
            await forget_history(session, before)
        async with self._database() as session:
            oldest = await repository.oldest(session)
            ends = await repository.ends_before(session, before)
        if oldest is None or oldest > before - datetime.timedelta(days=1) or not ends:
            return
        file = self._exports / f"audit-before-{before:%Y-%m-%dT%H-%M-%SZ}.jsonl" if self._exports else None
        await cut(self._database, CONTROLLER, self._key, before, self._now(), file)


async def cut(
    database: Database,
    by: Actor,
    key: CutKey,
    before: datetime.datetime,
    now: datetime.datetime,
    file: Path | None,
) -> Done:
    """Cut the lines older than `before`, except the last line of each chain. `file` must not exist yet.

    Raises LogBrokenError, ExportRefusedError, ValueError when `before` is less than 30 days ago, DBAPIError.
    """
    if before > now - datetime.timedelta(days=KEPT_DAYS_LEAST):
        raise ValueError(f"lines are kept for {KEPT_DAYS_LEAST} days at least")
    async with database() as session:
        ends = await repository.ends_before(session, before)
    verified = await verifier.verify(database, key, ends)
    if verified.broken is not None:
        raise LogBrokenError(verified.broken)
    export = await _export(database, ends, file) if file is not None else None
    async with begin(database, by) as transaction:
        session = transaction.session
        await repository.lock_cuts(session)
        cuts = await repository.cuts(session)
        made = [
            _sign_cut(key, cuts.get(chain, ()), (chain, *verified.ends[chain]), (before, now), (by, export))
            for chain in ends
            if verified.ends[chain][0] > _end(cuts.get(chain, ()))
        ]
        session.add_all(made)
        await session.flush()
        for one in made:
            await repository.delete_up_to(session, one.chain, one.seq)
        done = Done(sum(one.lines for one in made), export)
        told = {"export": export.hex()} if export else {}
        if made:
            transaction.audit(
                Line("audit.cut", "log", {"before": timestamp(before), "lines": done.lines} | told)
            )
    return done


def _end(cuts: Sequence[AuditCut]) -> int:
    return cuts[-1].seq if cuts else 0


def _sign_cut(
    key: CutKey,
    earlier: Sequence[AuditCut],
    end: tuple[int, int, bytes],
    moments: tuple[datetime.datetime, datetime.datetime],
    origin: tuple[Actor, bytes | None],
) -> AuditCut:
    """`end` has the chain, and the number and hash of its last cut line; `moments` are `before` and now."""
    chain, seq, digest = end
    before, now = moments
    by, export = origin
    made = AuditCut(
        chain=chain,
        number=len(earlier) + 1,
        seq=seq,
        hash=digest,
        lines=seq - _end(earlier),
        before=before,
        at=now,
        actor=by.name,
        export=export,
    )
    made.signature = key.sign(earlier[-1].signature if earlier else b"", made)
    return made


async def _export(database: Database, ends: Mapping[int, int], file: Path) -> bytes:
    """Write the lines up to `ends` to the file. Returns its SHA-256. Raises ExportRefusedError.

    An incomplete file is deleted, so that hourly attempts on a full disk do not leave one file each.
    """
    try:
        with private_files.name_directory_in_errors(file.parent):
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ExportRefusedError(f"{file} exists already") from None
    except OSError as error:
        raise ExportRefusedError(f"{error.filename}: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as target:
            digest = await _write(database, ends, target)
        await asyncio.to_thread(private_files.sync_directory, file.parent)
        return digest
    except BaseException as error:
        await asyncio.to_thread(file.unlink, missing_ok=True)
        if isinstance(error, OSError):
            raise ExportRefusedError(f"{file}: {error.strerror}") from None
        raise


async def _write(database: Database, ends: Mapping[int, int], target: BinaryIO) -> bytes:
    digest = hashlib.sha256()
    async for lines in repository.read_chains(database, Filter(), ends):
        data = (await asyncio.to_thread(jsonl, lines)).encode()
        digest.update(data)
        await asyncio.to_thread(target.write, data)
    await asyncio.to_thread(_sync, target)
    return digest.digest()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
