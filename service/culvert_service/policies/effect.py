"""The effect of a change of groups or policies: makes the change, reads its effect, and rolls back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import cache

from culvert_db import Database
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.repository import display_names
from culvert_service.decision import facts
from culvert_service.decision.assertions import assertions, broken_since
from culvert_service.decision.conditions import Conditions, fits_device
from culvert_service.identity.schemas import SHOWN, SomePeopleOut
from culvert_service.policies import repository
from culvert_service.policies.repository import Reach, Subjects
from culvert_service.policies.schemas import EffectOut
from culvert_service.tunnels.enforcement import Enforcement


class Effects:
    """`approval`: every policy needs an approved device."""

    def __init__(self, database: Database, enforcement: Enforcement, *, approval: bool) -> None:
        self._database = database
        self._enforcement = enforcement
        self._approval = approval

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
            waiting = await self._list_waiting(session, resources, before, after, gain)
            gain = sorted({*gain} - {*waiting})
            named = await display_names(session, gain[:SHOWN] + waiting[:SHOWN] + lose[:SHOWN])
            await session.rollback()
        return EffectOut(
            gain=SomePeopleOut.of(len(gain), gain[:SHOWN], named),
            waiting=SomePeopleOut.of(len(waiting), waiting[:SHOWN], named),
            lose=SomePeopleOut.of(len(lose), lose[:SHOWN], named),
            tunnels_closed=tunnels,
            breaks=breaks,
        )

    async def _list_waiting(
        self,
        session: AsyncSession,
        resources: Collection[str],
        before: Reach,
        after: Reach,
        gain: Sequence[str],
    ) -> list[str]:
        """Those who gain access by policies alone that ask for what none of their devices meets."""
        ways = [
            (subject, conditions, found)
            for subject, policy, found in await repository.list_ways(session, resources)
            for conditions in (
                it.conditions for it in facts.parse(policy, approval=self._approval) if it.enabled
            )
        ]

        @cache
        def conditions_of(subjects_before: Subjects, subjects_after: Subjects) -> list[Conditions]:
            gained = after.of(subjects_after) - before.of(subjects_before)
            return [
                it
                for subject, it, found in ways
                if subject in subjects_after and not gained.isdisjoint(found)
            ]

        asked = {name: conditions_of(before.people.get(name, ()), after.people[name]) for name in gain}
        waiting = {
            name for name, ways in asked.items() if all(it.device_approved or it.posture for it in ways)
        }
        for device in await repository.devices_of(session, waiting) if waiting else ():
            asker = facts.asker(device, device.user, None)
            if any(fits_device(it, asker) for it in asked[device.user.name]):
                waiting.discard(device.user.name)
        return sorted(waiting)


def _gain(before: Reach, after: Reach) -> list[str]:
    """The login names of people who reach a resource after the change that they did not reach before."""

    @cache
    def gains(subjects_before: Subjects, subjects_after: Subjects) -> bool:
        return not after.of(subjects_after) <= before.of(subjects_before)

    return sorted(
        name for name, subjects in after.people.items() if gains(before.people.get(name, ()), subjects)
    )
