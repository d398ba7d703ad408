"""Assertions about access: a change that would break one is refused.

As everywhere before a device asks, conditions are not considered: a person reaches a resource by any enabled policy. An
assertion about a group is about each member, and about the policies of the group itself, which has later members, too. An
assertion about a person or a group that is not there does not hold: a deletion must not make it true in silence.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from culvert_proto import CulvertError, Reason
from culvert_proto.dns_name import make_readable
from culvert_proto.phrases import Phrase
from pydantic import BaseModel, computed_field
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.decision import repository

# More are not named in a refusal.
_NAMED = 3


class AssertionOut(BaseModel):
    """That a person, or the members of a group, can reach a name (`reaches`), or that they cannot; and whether it holds."""

    id: int
    user: str | None
    group: str | None
    name: str
    reaches: bool
    holds: bool

    @computed_field
    @property
    def display_name(self) -> str:
        """`name` as people read it."""
        return make_readable(self.name)


async def assertions(session: AsyncSession) -> list[AssertionOut]:
    """All, in the state of the session's transaction."""
    return [
        AssertionOut(id=id_, user=user, group=group, name=name, reaches=reaches, holds=holds)
        for id_, user, group, name, reaches, holds in await repository.list_assertions(session)
    ]


async def broken_since(session: AsyncSession, before: Sequence[AssertionOut]) -> list[AssertionOut]:
    """Those that held before, and do not hold after the session's changes."""
    held = {it.id for it in before if it.holds}
    if not held:
        return []
    await session.flush()
    return [it for it in await assertions(session) if it.id in held and not it.holds]


@asynccontextmanager
async def kept(session: AsyncSession) -> AsyncGenerator[None]:
    """Around a change of access, in its transaction. Raises CulvertError ASSERTION_BROKEN.

    The change counts the policy version, so of two changes at once the second waits for the first, and sees it here.
    """
    before = await assertions(session)
    yield
    broken = await broken_since(session, before)
    if broken:
        raise CulvertError(Reason.ASSERTION_BROKEN, assertions=_describe(broken[:_NAMED]))


def _describe(broken: Sequence[AssertionOut]) -> str:
    text: str = _sentence(broken[0])
    for one in broken[1:]:
        text = Phrase("{assertion}; {more}", assertion=text, more=_sentence(one))
    return text


def _sentence(it: AssertionOut) -> Phrase:
    name = it.display_name
    if it.user is not None:
        if it.reaches:
            return Phrase("{user} can reach {name}", user=it.user, name=name)
        return Phrase("{user} cannot reach {name}", user=it.user, name=name)
    if it.reaches:
        return Phrase("the members of {group} can reach {name}", group=it.group, name=name)
    return Phrase("no member of {group} can reach {name}", group=it.group, name=name)
