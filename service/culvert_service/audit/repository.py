"""SQL about the audit log. Writing is log.py's."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from culvert_db import AuditLine, Outcome
from sqlalchemy import ColumnElement, and_, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.line import CHAINS, Broken, Verification
from culvert_service.rest.page import Cut

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Filter:
    actor: str | None = None
    action: str | None = None
    object: str | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None

    def clauses(self) -> list[ColumnElement[bool]]:
        equal = (
            (AuditLine.actor, self.actor),
            (AuditLine.action, self.action),
            (AuditLine.object, self.object),
            (AuditLine.outcome, self.outcome),
            (AuditLine.reason, self.reason),
        )
        found = [column == value for column, value in equal if value is not None]
        if self.since is not None:
            found.append(AuditLine.at >= self.since)
        if self.until is not None:
            found.append(AuditLine.at < self.until)
        return found


async def newest(session: AsyncSession, which: Filter, cut: Cut) -> Sequence[AuditLine]:
    """Newest first."""
    query = select(AuditLine).where(*which.clauses())
    query = cut.of(query, AuditLine.at, AuditLine.chain, AuditLine.seq, falling=True)
    return (await session.scalars(query)).all()


async def ends(session: AsyncSession) -> dict[int, int]:
    """The number of each chain's last line."""
    last = [
        select(AuditLine.chain, AuditLine.seq)
        .where(AuditLine.chain == chain)
        .order_by(AuditLine.seq.desc())
        .limit(1)
        for chain in range(CHAINS)
    ]
    rows = await session.execute(union_all(*(select(one.subquery()) for one in last)))
    return {row.chain: row.seq for row in rows}


async def after(session: AsyncSession, ends: Mapping[int, int]) -> Sequence[AuditLine]:
    """Lines behind these ends, some of them when there are many: oldest first, and each chain's without a gap."""
    behind = [and_(AuditLine.chain == chain, AuditLine.seq > ends.get(chain, 0)) for chain in range(CHAINS)]
    query = select(AuditLine).where(or_(*behind)).order_by(AuditLine.at, AuditLine.chain, AuditLine.seq)
    return (await session.scalars(query.limit(_BATCH))).all()


async def chained(session: AsyncSession, which: Filter) -> AsyncIterator[Sequence[AuditLine]]:
    """Chain by chain, oldest first, in batches, as of one moment."""
    await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    query = select(AuditLine).where(*which.clauses()).order_by(AuditLine.chain, AuditLine.seq)
    found = await session.stream_scalars(query.execution_options(yield_per=_BATCH))
    async for batch in found.partitions():
        yield batch
        session.expunge_all()


async def verify(session: AsyncSession) -> tuple[Verification, Broken | None]:
    """Up to the first line that is broken."""
    verification = Verification()
    async for batch in chained(session, Filter()):
        if broken := verification.take(batch):
            return verification, broken
    return verification, None
