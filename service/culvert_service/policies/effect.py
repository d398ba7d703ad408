"""The effect of a change of groups or policies: the change is made, looked at, and taken back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable

from culvert_db import Database
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.policies import repository
from culvert_service.policies.schemas import EffectOut, SomePeopleOut

_SHOWN = 20

# The number of tunnels that would be closed, were the transaction committed as it stands.
Cuts = Callable[[AsyncSession], Awaitable[int]]


class Effects:
    def __init__(self, database: Database, cuts: Cuts) -> None:
        self._database = database
        self._cuts = cuts

    async def of(
        self,
        concerned: Callable[[AsyncSession], Awaitable[Collection[str]]],
        change: Callable[[AsyncSession], Awaitable[object]],
    ) -> EffectOut:
        """`concerned`: the resources whose people may become others. Raises what `change` does."""
        async with self._database() as session:
            resources = await concerned(session)
            before = await repository.reach(session, resources)
            await change(session)
            await session.flush()
            after = await repository.reach(session, resources)
            tunnels = await self._cuts(session)
            await session.rollback()
        return EffectOut(
            gain=_some(user for user, _ in after - before),
            lose=_some(user for user, _ in before - after),
            tunnels_closed=tunnels,
        )


def _some(people: Iterable[str]) -> SomePeopleOut:
    names = sorted(set(people))
    return SomePeopleOut(count=len(names), first=names[:_SHOWN])
