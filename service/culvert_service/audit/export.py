"""The log as JSON lines. Few exports run at a time, and a reader that stops reading is cut off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager

from culvert_db import Database
from culvert_proto import CulvertError, Reason
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from culvert_service.audit import repository
from culvert_service.audit.line import Written
from culvert_service.audit.repository import Filter
from culvert_service.audit.schemas import AuditLineOut

MOST = 2
# An export ends when its reader has not taken the last batch (some 200 KiB) within this time.
TAKEN_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Exports:
    """The exports that this controller is sending."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._under_way = 0

    @contextmanager
    def place(self) -> Generator[None]:
        """Hold one of the places for exports. Raises CulvertError EXPORTS_UNDER_WAY when none is free."""
        if self._under_way >= MOST:
            raise CulvertError(Reason.EXPORTS_UNDER_WAY, most=MOST, seconds=int(TAKEN_SECONDS))
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1


class _ReaderTooSlowError(Exception):
    pass


class ExportResponse(StreamingResponse):
    """The lines chain by chain, up to the ends of the chains at the beginning of the export.

    An answer that is broken off has no last chunk (RFC 9112 section 7.1), so a client can tell that it is incomplete.
    """

    media_type = "application/jsonl"

    def __init__(self, exports: Exports, which: Filter) -> None:
        super().__init__(_lines(exports.database, which))
        self._exports = exports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises CulvertError EXPORTS_UNDER_WAY before it has sent anything."""

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(TAKEN_SECONDS):
                    await send(message)
            except TimeoutError:
                raise _ReaderTooSlowError from None

        with self._exports.place():
            try:
                await super().__call__(scope, receive, send_in_time)
            except _ReaderTooSlowError:
                _log.warning(
                    "an export of the audit log was broken off", extra={"why": "its reader is too slow"}
                )


async def _lines(database: Database, which: Filter) -> AsyncGenerator[str]:
    async with database() as session:
        ends = await repository.ends(session)
    async with aclosing(repository.read_chains(database, which, ends)) as batches:
        async for batch in batches:
            yield await asyncio.to_thread(jsonl, batch)


def jsonl(lines: Sequence[Written]) -> str:
    return "".join(f"{AuditLineOut.of(line).model_dump_json()}\n" for line in lines)
