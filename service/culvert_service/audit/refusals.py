"""Refusals in the audit log: a line for the first refusals of each caller, then counts of the refusals left out."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from culvert_db import Database, Outcome
from culvert_proto import CulvertError

from culvert_service.audit.line import Detail
from culvert_service.audit.log import CONTROLLER, Actor, Line
from culvert_service.audit.repeats import Repeats, Summary
from culvert_service.audit.transaction import begin
from culvert_service.tasks import Periodic

_SUMMARY_SECONDS = 60.0
# The most callers, and the most kinds of refusal, that a summary names.
_NAMED = 32

_log = logging.getLogger(__name__)


class Refusals:
    """The refusals by one controller. A killed controller loses the counts of its last two minutes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._repeats = Repeats()
        self._periodic = Periodic("summary of refusals", self.summarise, _SUMMARY_SECONDS)

    async def start(self) -> None:
        self._periodic.start()

    async def stop(self) -> None:
        await self._periodic.stop()
        try:
            await self.summarise(time.monotonic())
        except CulvertError as error:
            _log.warning("refusals were left out of the log", extra={"why": error.message})

    async def of_stranger(self, by: Actor, line: Line, why: CulvertError) -> None:
        """Record the refusal of a caller that is known only by its address.

        Uses a transaction of its own, because the transaction of the refused request was rolled back.
        """
        left_out = self._repeats.tell_stranger(by.source, _what(line, why), time.monotonic())
        await self._write(by, line, why, left_out)

    async def of_caller(self, by: Actor, line: Line, why: CulvertError) -> None:
        """As `of_stranger`, for a known administrator or API token."""
        who = f"{by.kind}/{by.name}"
        await self._write(by, line, why, self._repeats.tell(who, _what(line, why), time.monotonic()))

    def line(self, who: str, line: Line, why: CulvertError) -> Line | None:
        """The refusal's line for the log; None when the refusal is only counted."""
        left_out = self._repeats.tell(who, _what(line, why), time.monotonic())
        return None if left_out is None else refusal_line(line, why, left_out)

    async def summarise(self, until: float | None = None) -> None:
        """Write a line with the counts of callers whose first unlogged refusal was at `until` or earlier.

        `until` is in seconds of the monotonic clock; by default a minute ago.
        """
        until = time.monotonic() - _SUMMARY_SECONDS if until is None else until
        if summary := self._repeats.summary(until):
            details = _details(summary)
            line = Line("audit.left-out", "log", details, outcome=Outcome.DENIED)
            async with begin(self._database, CONTROLLER) as transaction:
                transaction.audit(line)

    async def _write(self, by: Actor, line: Line, why: CulvertError, left_out: int | None) -> None:
        if left_out is not None:
            async with begin(self._database, by) as transaction:
                transaction.audit(refusal_line(line, why, left_out))


def refusal_line(line: Line, why: CulvertError, left_out: int = 0) -> Line:
    """`left_out` is the number of refusals of the same caller that were left out before this one."""
    told: dict[str, Detail] = {"left_out": left_out} if left_out else {}
    return replace(line, why=why, outcome=Outcome.DENIED, details=line.details | told)


def _what(line: Line, why: CulvertError) -> tuple[str, str, str]:
    return line.action, line.object, why.reason.name


def _details(summary: Summary) -> dict[str, Detail]:
    return {
        "left_out": sum(summary.callers.values()),
        "callers": len(summary.callers),
        "busiest": _most(summary.callers),
        "refusals": _most(summary.kinds),
    }


def _most(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_NAMED]
    return ", ".join(f"{name}: {count}" for name, count in most)
