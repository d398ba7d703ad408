"""Reconciliation of one gateway: desired entries, observed entries, difference, ordered writes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterable, Sequence
from typing import Protocol

from culvert_service.gateways.comparison import Compared, compare
from culvert_service.gateways.diff import DesiredTunnel, Plan, Sieve, plan
from culvert_service.gateways.entry import Entry, Kind
from culvert_service.gateways.health import Drift
from culvert_service.gateways.link import Link

_log = logging.getLogger(__name__)

# A set-up ends within this time.
_SETTLE_SECONDS = 0.2


class DesiredState(Protocol):
    def read_desired(self, gateway_id: int) -> AsyncIterable[Sequence[DesiredTunnel]]:
        """A gateway's desired tunnels from the database, in portions."""
        ...

    async def restore_lost(self, link: Link, lost: Sequence[DesiredTunnel]) -> None:
        """Handle tunnels whose SAs the gateway has lost."""
        ...


async def reconcile(link: Link, state: DesiredState) -> None:
    """Bring the gateway to its desired state. Raises CulvertError GATEWAY_DOWN, or the error that ends the link."""
    # The first two readings take no lock, so they may see unfinished set-ups. If both share a difference, a third reading
    # takes the exclusive lock. A gateway that comes online has no set-ups, so it needs only the last.
    if link.online:
        seen = (await _find_difference(link, state)).subjects()
        if not seen or seen.isdisjoint((await _find_difference(link, state)).subjects()):
            link.take_reconciliation(Drift())
            return
    async with link.guard.exclusive():
        todo = await _find_difference(link, state)
        deletions = [update for update in todo.updates if update.kind is Kind.DELETE]
        # Two requests: within one, a switch may take updates in any order (P4Runtime section 12).
        await link.write_all(deletions)
        await link.write_all([update for update in todo.updates if update.kind is not Kind.DELETE])
    link.lost = frozenset((it.tunnel_id, it.generation) for it in todo.lost)
    link.take_reconciliation(_count_drift(todo))
    if todo.updates or todo.lost:
        _log.info(
            "reconciled",
            extra={"gateway": link.name, "writes": len(todo.updates), "tunnels_lost": len(todo.lost)},
        )
    # Outside of the lock: closing a tunnel waits for the tunnel's other users, which may wait for the write lock.
    try:
        await state.restore_lost(link, todo.lost)
    finally:
        link.lost = frozenset()


async def read_comparison(link: Link, state: DesiredState) -> list[Compared]:
    """The gateway's desired and observed entries now. Raises CulvertError GATEWAY_DOWN."""
    todo, observed = await _plan_whole(link, state)
    before = todo.subjects()
    if before:
        await asyncio.sleep(_SETTLE_SECONDS)
        todo, observed = await _plan_whole(link, state)
    return compare(observed, todo, before & todo.subjects())


def _count_drift(todo: Plan) -> Drift:
    """Count the drift. A lost tunnel counts as missing, because its SAs are not written again."""
    counts = Counter(update.kind for update in todo.updates)
    return Drift(counts[Kind.INSERT] + len(todo.lost), counts[Kind.DELETE], counts[Kind.MODIFY])


async def _find_difference(link: Link, state: DesiredState) -> Plan:
    sieve = Sieve(link.static_entries(), await link.hashes())
    # In a thread, because comparing 100,000 entries would block the event loop.
    async for portion in state.read_desired(link.config.id):
        await asyncio.to_thread(sieve.add, portion)
    observed = await link.observe(sieve.entries)
    return await asyncio.to_thread(plan, sieve.static, sieve.tunnels, observed)


async def _plan_whole(link: Link, state: DesiredState) -> tuple[Plan, list[Entry]]:
    """The plan, and all observed entries."""
    tunnels = [one async for portion in state.read_desired(link.config.id) for one in portion]
    observed = await link.observe()
    return await asyncio.to_thread(plan, link.static_entries(), tunnels, observed), observed
