"""People's names for the things in the log's lines: the log itself has identifiers that do not change."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence

from culvert_db import ActorKind, AuditLine, Device, Outcome, User
from culvert_proto.dns_name import shown
from sqlalchemy import ColumnElement, String, cast, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from culvert_service.audit.schemas import AuditLineOut, DeniedOut, NamedLineOut


async def named(session: AsyncSession, lines: Sequence[AuditLine]) -> list[NamedLineOut]:
    told = [AuditLineOut.of(line) for line in lines]
    mentioned = [set(_devices(line)) for line in told]
    names = await _names(session, set[uuid.UUID]().union(*mentioned))
    return [
        NamedLineOut(
            **line.model_dump(), names=_spoken(line) | {str(it): names[it] for it in its if it in names}
        )
        for line, its in zip(told, mentioned, strict=True)
    ]


async def last_denials(session: AsyncSession, devices: Iterable[uuid.UUID]) -> dict[str, DeniedOut]:
    """By the device's id."""
    return await _denials(session, AuditLine.actor, AuditLine.actor.in_(map(str, devices)))


async def last_denials_of_people(session: AsyncSession, people: Iterable[str]) -> dict[str, DeniedOut]:
    """By the person's name: the newest of their devices'."""
    of_theirs = (Device.user_id == User.id, cast(Device.id, String) == AuditLine.actor)
    return await _denials(session, User.name, User.name.in_(people), *of_theirs)


async def _denials(
    session: AsyncSession, whose: InstrumentedAttribute[str], *which: ColumnElement[bool]
) -> dict[str, DeniedOut]:
    query = select(whose, AuditLine).where(AuditLine.outcome == Outcome.DENIED, *which)
    query = query.where(AuditLine.actor_kind == ActorKind.DEVICE)
    query = query.ext(distinct_on(whose)).order_by(whose, AuditLine.at.desc())
    return {who: DeniedOut.of(line) for who, line in await session.execute(query)}


async def _names(session: AsyncSession, devices: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    query = select(Device.id, Device.name, User.name).join(User, User.id == Device.user_id)
    found = await session.execute(query.where(Device.id.in_(devices)))
    return {device_id: f"{name} of {user}" for device_id, name, user in found}


def _spoken(line: AuditLineOut) -> dict[str, str]:
    """The texts of a line that people read in another form."""
    texts = [line.object.partition("/")[2], line.why or "", *map(str, line.details.values())]
    return {text: spoken for text in texts if (spoken := shown(text)) != text}


def _devices(line: AuditLineOut) -> Iterator[uuid.UUID]:
    kind, _, device = line.object.partition("/")
    told = line.details.get("device")
    for possible in (
        line.actor if line.actor_kind == "device" else "",
        device if kind == "device" else "",
        told if isinstance(told, str) else "",
    ):
        try:
            yield uuid.UUID(possible)
        except ValueError:
            continue
