"""The effect of a change of groups or policies: makes the change, reads its effect, and rolls back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import cache

from culvert_db import Database
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.repository import display_names
from culvert_service.decision.assertions import assertions, broken_since
from culvert_service.identity.schemas import SHOWN, SomePeopleOut
from culvert_service.policies import repository
from culvert_service.policies.repository import Reach, Subjects
from culvert_service.policies.schemas import EffectOut
from culvert_service.tunnels.enforcement import Enforcement


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
            asserted = await assertions(session)
            await change(session)
            await session.flush()
            breaks = await broken_since(session, asserted)
            after = await repository.reach(session, resources)
            tunnels = await self._enforcement.count_unpermitted(session)
            gain, lose = _gain(before, after), _gain(after, before)
            named = await display_names(session, gain[:SHOWN] + lose[:SHOWN])
            await session.rollback()
        return EffectOut(
            gain=SomePeopleOut.of(len(gain), gain[:SHOWN], named),
            lose=SomePeopleOut.of(len(lose), lose[:SHOWN], named),
            tunnels_closed=tunnels,
            breaks=breaks,
        )


def _gain(before: Reach, after: Reach) -> list[str]:
    """The login names of people who reach a resource after the change that they did not reach before."""

    @cache
    def gains(subjects_before: Subjects, subjects_after: Subjects) -> bool:
        return not after.of(subjects_after) <= before.of(subjects_before)

    return sorted(
        name for name, subjects in after.people.items() if gains(before.people.get(name, ()), subjects)
    )
