"""Readable names for the objects in the log's lines, because the log itself has identifiers that never change."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence

from culvert_db import AuditLine
from culvert_proto.dns_name import make_readable
from culvert_proto.stored_text import localise_text
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit import repository
from culvert_service.audit.schemas import AuditLineOut, DeniedOut, NamedLineOut


async def name_lines(session: AsyncSession, lines: Sequence[AuditLine], language: str) -> list[NamedLineOut]:
    """`language`: of the refusals' reasons; the lines themselves stay as they were written."""
    told = [AuditLineOut.of(line) for line in lines]
    mentioned = [set(_devices(line)) for line in told]
    names = await repository.device_names(session, set[uuid.UUID]().union(*mentioned))
    people = [_people(line) for line in told]
    shown = await repository.display_names(session, set[str]().union(*people))
    return [
        NamedLineOut(
            **line.model_dump(),
            names=_spell_texts(line, language)
            | {str(it): names[it].localise(language) for it in its if it in names}
            | {f"user/{name}": f"{shown[name]} ({name})" for name in who if name in shown},
        )
        for line, its, who in zip(told, mentioned, people, strict=True)
    ]


async def last_denials(session: AsyncSession, devices: Iterable[uuid.UUID]) -> dict[str, DeniedOut]:
    """The last denials by device id."""
    found = await repository.last_denials(session, devices)
    return {device: DeniedOut.of(line) for device, line in found.items()}


async def last_denials_of_people(session: AsyncSession, people: Iterable[str]) -> dict[str, DeniedOut]:
    """By the person's name: the newest denial of the person's devices."""
    found = await repository.last_denials_of_people(session, people)
    return {person: DeniedOut.of(line) for person, line in found.items()}


def _spell_texts(line: AuditLineOut, language: str) -> dict[str, str]:
    """A line's texts that have a form for a reader: names with A-labels, and the reason in another language."""
    texts = [line.object.partition("/")[2], line.why or "", *map(str, line.details.values())]
    spoken = {text: make_readable(text) for text in texts}
    if line.why:
        spoken[line.why] = make_readable(localise_text(line.why, language))
    return {text: form for text, form in spoken.items() if form != text}


def _people(line: AuditLineOut) -> set[str]:
    """The login names that a line mentions. An administrator may have the same name, so that the line's texts alone do not
    say which of the two is meant: `names` has them as `user/NAME`.
    """
    kind, _, name = line.object.partition("/")
    user = line.details.get("user")
    return {it for it in (name if kind == "user" else "", user if isinstance(user, str) else "") if it}


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
