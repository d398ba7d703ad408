"""Desired → observed → difference → ordered writes, for one gateway (DESIGN D8)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterable, Sequence
from typing import Protocol

from culvert_service.gateways.comparison import Compared, compared
from culvert_service.gateways.diff import DesiredTunnel, Plan, Sieve, plan
from culvert_service.gateways.entry import Entry, Kind
from culvert_service.gateways.health import Drift
from culvert_service.gateways.link import Link
from culvert_service.gateways.site import static_entries

_log = logging.getLogger(__name__)

# In which a set-up ends.
_SETTLE_SECONDS = 0.2


class DesiredState(Protocol):
    def desired(self, gateway_id: int) -> AsyncIterable[Sequence[DesiredTunnel]]:
        """The tunnels that the database wants on a gateway, in portions."""
        ...

    async def lost(self, link: Link, lost: Sequence[DesiredTunnel]) -> None:
        """Close tunnels whose SAs the gateway does not have any more."""
        ...


async def reconcile(link: Link, state: DesiredState) -> None:
    """Afterwards the gateway holds what it should. Raises CulvertError GATEWAY_DOWN, or what the link ends with."""
    # The first looks disturb nobody. They may see set-ups half-way; what two of them see is looked at again alone. At a
    # gateway that comes online nobody sets anything up.
    if link.online:
        seen = (await _difference(link, state)).subjects()
        if not seen or seen.isdisjoint((await _difference(link, state)).subjects()):
            link.reconciled(Drift())
            return
    async with link.guard.exclusive():
        todo = await _difference(link, state)
        deletions = [update for update in todo.updates if update.kind is Kind.DELETE]
        # Two requests: within one, a switch may take updates in any order (P4Runtime section 12).
        await link.write_all(deletions)
        await link.write_all([update for update in todo.updates if update.kind is not Kind.DELETE])
    link.reconciled(_drift(todo))
    if todo.updates or todo.lost:
        _log.info(
            "reconciled",
            extra={"gateway": link.name, "writes": len(todo.updates), "tunnels_lost": len(todo.lost)},
        )
    # Outside of the guard: closing a tunnel waits for whoever works on it, who may wait for a turn at the gateway.
    await state.lost(link, todo.lost)


async def comparison(link: Link, state: DesiredState) -> list[Compared]:
    """The gateway's desired entries beside its actual ones, at this moment. Raises CulvertError GATEWAY_DOWN."""
    todo, observed = await _look(link, state)
    before = todo.subjects()
    if before:
        await asyncio.sleep(_SETTLE_SECONDS)
        todo, observed = await _look(link, state)
    return compared(observed, todo, before & todo.subjects())


def _drift(todo: Plan) -> Drift:
    """An SA that is missing is not written again: its tunnel counts with what else is missing."""
    of = Counter(update.kind for update in todo.updates)
    return Drift(of[Kind.INSERT] + len(todo.lost), of[Kind.DELETE], of[Kind.MODIFY])


async def _difference(link: Link, state: DesiredState) -> Plan:
    sieve = Sieve(static_entries(link.config.site), await link.hashes())
    # Beside: the rest of the process goes on while a hundred thousand entries are compared.
    async for portion in state.desired(link.config.id):
        await asyncio.to_thread(sieve.add, portion)
    observed = await link.observe(sieve.entries)
    return await asyncio.to_thread(plan, sieve.static, sieve.tunnels, observed)


async def _look(link: Link, state: DesiredState) -> tuple[Plan, list[Entry]]:
    """With all that was observed."""
    tunnels = [one async for portion in state.desired(link.config.id) for one in portion]
    observed = await link.observe()
    return await asyncio.to_thread(plan, static_entries(link.config.site), tunnels, observed), observed
