"""SQL about the audit log."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from culvert_db import ActorKind, AuditCut, AuditLine, Database, Device, Outcome, Resource, Statement, User
from culvert_db.text import contains
from culvert_proto.phrases import Phrase
from sqlalchemy import (
    ColumnElement,
    String,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    tuple_,
    union_all,
)
from sqlalchemy import cast as cast_to
from sqlalchemy.dialects.postgresql import JSONB, distinct_on
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from culvert_service.audit.line import CHAINS, Written
from culvert_service.rest.page import Cut, contains_text

# A line can have a detail of 64 KiB: a batch of such lines takes 32 MiB.
BATCH = 500
# The lines that a search reads for a page: some 0.3 s.
SEARCHED_MAX = 50_000
# Smaller than every line's number.
_BEFORE_ALL = -(2**63)
_LINES = cast("Table", AuditLine.__table__)
_COLUMNS = tuple(_LINES.columns)
# For `Line.row`.
INSERT = Statement(insert(_LINES).values({column.name: bindparam(column.name) for column in _COLUMNS}))
_LOCK_CUTS = text("SELECT pg_advisory_xact_lock(450052, 0)")


@dataclass(frozen=True, slots=True)
class Filter:
    actor: str | None = None
    action: str | None = None
    object: str | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    # The login name of the person whose devices acted.
    person: str | None = None
    # A part of a name of a person, a device, a resource or an actor.
    q: str | None = None

    def clauses(self) -> list[ColumnElement[bool]]:
        equal = (
            (AuditLine.actor, self.actor),
            (AuditLine.action, self.action),
            (AuditLine.object, self.object),
            (AuditLine.outcome, self.outcome),
            (AuditLine.reason, self.reason),
        )
        found = [column == value for column, value in equal if value is not None]
        if self.person is not None:
            of_person = select(Device.id.cast(String)).join(User, User.id == Device.user_id)
            found.append(AuditLine.actor.in_(of_person.where(User.name == self.person)))
        if self.q is not None:
            found.append(_mentions(self.q))
        return [*found, *self.times()]

    def times(self) -> list[ColumnElement[bool]]:
        since = () if self.since is None else (AuditLine.at >= self.since,)
        return [*since, *(() if self.until is None else (AuditLine.at < self.until,))]


def _mentions(part: str) -> ColumnElement[bool]:
    """Whether a line names a person, a device, a resource or an actor whose name contains the part.

    Lines have a device by its id, a person by the login name and a resource by its DNS name: these are looked up, while
    they exist, by their other names.
    """
    people = select(User.name).where(contains_text(part, User.name, User.display_name))
    devices = select(Device.id.cast(String)).join(User, User.id == Device.user_id)
    devices = devices.where(contains_text(part, Device.name, User.name, User.display_name))
    names = contains_text(part, Resource.name, Resource.fqdn, Resource.unicode_name)
    resources, fqdns = select(Resource.name).where(names), select(Resource.fqdn).where(names)
    kind, named = (
        func.split_part(AuditLine.object, "/", 1),
        func.substr(AuditLine.object, func.strpos(AuditLine.object, "/") + 1),
    )
    told = cast_to(AuditLine.details, JSONB)
    name, user, device = (told[field].astext for field in ("name", "user", "device"))
    # An id contains letters and digits, but is no name.
    return or_(
        and_(AuditLine.actor_kind != ActorKind.DEVICE, contains(AuditLine.actor, part)),
        and_(kind.not_in(("device", "tunnel")), contains(named, part)),
        contains_text(part, name, user),
        AuditLine.actor.in_(devices),
        and_(kind == "device", named.in_(devices)),
        device.in_(devices),
        and_(kind == "user", named.in_(people)),
        user.in_(people),
        and_(kind == "resource", named.in_(resources)),
        and_(kind == "name", named.in_(fqdns)),
        name.in_(fqdns),
    )


Place = tuple[datetime.datetime, int, int]
_ORDER = (AuditLine.at, AuditLine.chain, AuditLine.seq)


async def by_time(
    session: AsyncSession, which: Filter, cut: Cut, *, falling: bool
) -> tuple[Sequence[AuditLine], Place | None]:
    """The lines; and the place at which a search goes on that has read its most lines and found too few.

    No index finds a part of a name: the embedded Postgres has no pg_trgm. So a search reads a bounded number of lines.
    """
    query = select(AuditLine).where(*which.clauses())
    end: Place | None = None
    if which.q is not None:
        read = replace(cut, count=SEARCHED_MAX).of(
            select(*_ORDER).where(*which.times()), *_ORDER, falling=falling
        )
        last = (await session.execute(read.offset(SEARCHED_MAX - 1))).first()
        if last is not None:
            end = (last[0], last[1], last[2])
            order = tuple_(*_ORDER)
            query = query.where(order >= end if falling else order <= end)
    found = (await session.scalars(cut.of(query, *_ORDER, falling=falling))).all()
    return found, end if len(found) < cut.count else None


async def count_hours(
    session: AsyncSession, since: datetime.datetime
) -> dict[datetime.datetime, tuple[int, int]]:
    """For each hour with lines since then: the devices' openings, and the refused ones."""
    hour = func.date_trunc("hour", AuditLine.at, "UTC")
    opened, denied = (
        func.count().filter(AuditLine.outcome == outcome) for outcome in (Outcome.DONE, Outcome.DENIED)
    )
    query = (
        select(hour, opened, denied)
        .where(AuditLine.at >= since, AuditLine.action == "tunnel.open")
        .group_by(hour)
    )
    return {at: (opened, denied) for at, opened, denied in await session.execute(query)}


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
    """Lines after these ends, oldest first, without gaps in a chain; at most a batch of them."""
    behind = [and_(AuditLine.chain == chain, AuditLine.seq > ends.get(chain, 0)) for chain in range(CHAINS)]
    query = select(AuditLine).where(or_(*behind)).order_by(AuditLine.at, AuditLine.chain, AuditLine.seq)
    return (await session.scalars(query.limit(BATCH))).all()


async def read_chains(
    database: Database, which: Filter, ends: Mapping[int, int]
) -> AsyncGenerator[Sequence[Written]]:
    """The lines up to these ends, chain by chain, oldest first, in batches. Holds no session between two batches."""
    for chain, end in sorted(ends.items()):
        seen = _BEFORE_ALL
        while seen < end:
            query = select(*_COLUMNS).where(
                AuditLine.chain == chain, AuditLine.seq > seen, AuditLine.seq <= end
            )
            query = query.where(*which.clauses()).order_by(AuditLine.seq).limit(BATCH)
            async with database() as session:
                rows = (await session.execute(query)).all()
            if not rows:
                break
            yield [Written._make(row) for row in rows]
            seen = rows[-1].seq


async def stray_chain(session: AsyncSession) -> int | None:
    """The number of a chain with lines although no connection appends to it; None when there is no such chain."""
    query = select(AuditLine.chain).where(or_(AuditLine.chain < 0, AuditLine.chain >= CHAINS))
    return await session.scalar(query.limit(1))


async def cuts(session: AsyncSession) -> dict[int, list[AuditCut]]:
    """The cuts of each chain, in the order of their numbers. A chain without cuts is absent."""
    found: dict[int, list[AuditCut]] = {}
    for one in await session.scalars(select(AuditCut).order_by(AuditCut.chain, AuditCut.number)):
        found.setdefault(one.chain, []).append(one)
    return found


async def oldest(session: AsyncSession) -> datetime.datetime | None:
    """The time of the oldest line; None for an empty log."""
    return await session.scalar(select(func.min(AuditLine.at)))


async def ends_before(session: AsyncSession, before: datetime.datetime) -> dict[int, int]:
    """For each chain, the number of its last line that is older than `before` and is not the chain's last line.

    A chain without such a line is absent.
    """
    found: dict[int, int] = {}
    for chain, end in (await ends(session)).items():
        old = (AuditLine.chain == chain, AuditLine.at < before, AuditLine.seq < end)
        seq = await session.scalar(select(AuditLine.seq).where(*old).order_by(AuditLine.seq.desc()).limit(1))
        if seq is not None:
            found[chain] = seq
    return found


async def lock_cuts(session: AsyncSession) -> None:
    """Wait until no other transaction cuts, and keep others from it until this one ends."""
    await session.execute(_LOCK_CUTS)


async def delete_up_to(session: AsyncSession, chain: int, seq: int) -> None:
    """The chain must have a cut of these lines already, or the database refuses."""
    await session.execute(delete(AuditLine).where(AuditLine.chain == chain, AuditLine.seq <= seq))


async def last_denials(session: AsyncSession, devices: Iterable[uuid.UUID]) -> dict[str, AuditLine]:
    """The newest denial of each device, by the device's id."""
    return await _last_denials(session, AuditLine.actor, AuditLine.actor.in_(map(str, devices)))


async def last_denials_of_people(session: AsyncSession, people: Iterable[str]) -> dict[str, AuditLine]:
    """The newest denial of any of a person's devices, by the person's name."""
    of_theirs = (Device.user_id == User.id, Device.id.cast(String) == AuditLine.actor)
    return await _last_denials(session, User.name, User.name.in_(people), *of_theirs)


async def _last_denials(
    session: AsyncSession, whose: InstrumentedAttribute[str], *which: ColumnElement[bool]
) -> dict[str, AuditLine]:
    query = select(whose, AuditLine).where(AuditLine.outcome == Outcome.DENIED, *which)
    query = query.where(AuditLine.actor_kind == ActorKind.DEVICE)
    query = query.ext(distinct_on(whose)).order_by(whose, AuditLine.at.desc())
    return {row[0]: row[1] for row in await session.execute(query)}


async def display_names(session: AsyncSession, people: Iterable[str]) -> dict[str, str]:
    """By login name, of the people that have one."""
    query = select(User.name, User.display_name).where(User.name.in_(people), User.display_name.is_not(None))
    return {name: shown for name, shown in await session.execute(query) if shown is not None}


async def device_names(session: AsyncSession, devices: Iterable[uuid.UUID]) -> dict[uuid.UUID, Phrase]:
    """Each device's name with its person's."""
    query = select(Device.id, Device.name, func.coalesce(User.display_name, User.name)).join(
        User, User.id == Device.user_id
    )
    found = await session.execute(query.where(Device.id.in_(devices)))
    return {
        device_id: Phrase("{device} of {person}", device=name, person=user) for device_id, name, user in found
    }
