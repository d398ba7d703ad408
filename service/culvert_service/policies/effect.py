"""The effect of a change of groups or policies: makes the change, reads its effect, and rolls back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import cache

from culvert_db import Database
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.policies import repository
from culvert_service.policies.repository import Reach, Subjects
from culvert_service.policies.schemas import EffectOut, SomePeopleOut
from culvert_service.tunnels.enforcement import Enforcement

# Names of people in an answer.
SHOWN = 20


class Effects:
    def __init__(self, database: Database, enforcement: Enforcement) -> None:
        self._database = database
        self._enforcement = enforcement

    async def of(
        self,
        concerned: Callable[[AsyncSession], Awaitable[Collection[str]]],
        change: Callable[[AsyncSession], Awaitable[object]],
    ) -> EffectOut:
        """`concerned`: the resources whose set of people may change. Raises as `change`."""
        async with self._database() as session:
            resources = await concerned(session)
            before = await repository.reach(session, resources)
            await change(session)
            await session.flush()
            after = await repository.reach(session, resources)
            tunnels = await self._enforcement.count_unpermitted(session)
            await session.rollback()
        return EffectOut(gain=_gain(before, after), lose=_gain(after, before), tunnels_closed=tunnels)


def _gain(before: Reach, after: Reach) -> SomePeopleOut:
    """The people who reach a resource after the change that they did not reach before."""

    @cache
    def gains(subjects_before: Subjects, subjects_after: Subjects) -> bool:
        return not after.of(subjects_after) <= before.of(subjects_before)

    names = sorted(
        name for name, subjects in after.people.items() if gains(before.people.get(name, ()), subjects)
    )
    return SomePeopleOut(count=len(names), first=names[:SHOWN])
