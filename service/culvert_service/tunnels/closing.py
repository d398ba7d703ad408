"""Closing tunnels and ending old generations: rows, audit lines, messages to devices, then entries of gateways.

rows locked ─► deleted, with audit lines and pushes ─► commit ─► devices told ─► entries removed
                                                                                 └► or left to the reconciler
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from culvert_db import Database, InSession
from culvert_proto import CulvertError, Reason

from culvert_service.audit.line import Detail
from culvert_service.audit.log import CONTROLLER, Actor, Line
from culvert_service.audit.transaction import Transaction, begin
from culvert_service.gateways.entry import Update
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.link import Link
from culvert_service.gateways.remote import Remote
from culvert_service.gateways.tunnel_entries import remove_pair
from culvert_service.tasks import Background
from culvert_service.tunnels import hot_queries, repository
from culvert_service.tunnels.lifecycle import Drained, advance
from culvert_service.tunnels.record import Due, TunnelRecord
from culvert_service.tunnels.repository import Which
from culvert_service.watch.hub import Hub, TunnelClosed
from culvert_service.watch.pushes import Pushes

_log = logging.getLogger(__name__)

# A closed tunnel, and the cause that its device receives.
_Closed = tuple[TunnelRecord, CulvertError]


@dataclass(frozen=True, slots=True)
class ClosedTunnels:
    """Tunnels that a transaction has closed."""

    _closing: Closing
    _closed: Sequence[_Closed]

    async def finish(self) -> int:
        """After the commit: tell the devices, and clear the gateways. Returns the number of tunnels."""
        return await self._closing.finish(self._closed)


class Closing:
    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        remote: Remote,
        hub: Hub,
        pushes: Pushes,
        background: Background,
    ) -> None:
        self._database = database
        self._fleet = fleet
        self._remote = remote
        self._hub = hub
        self._pushes = pushes
        self._background = background

    async def close(self, by: Actor, why: CulvertError, which: Which) -> int:
        """Close the tunnels that match, and tell their devices why. Returns the number of tunnels."""
        async with begin(self._database, by) as transaction:
            closed = await self.close_within(transaction, why, which)
        return await closed.finish()

    async def close_within(self, transaction: Transaction, why: CulvertError, which: Which) -> ClosedTunnels:
        """As `close`, inside a transaction."""
        taken = await repository.take(transaction, which)
        return await self._close_taken(transaction, [(record, why) for record in taken])

    async def close_locked(
        self, transaction: Transaction, locked: Sequence[TunnelRecord], why: CulvertError
    ) -> ClosedTunnels:
        """As `close_within`, for tunnels that the transaction has locked. `locked`: the tunnels as read under the lock."""
        await repository.delete_tunnels(transaction.session, [record.id for record in locked])
        return await self._close_taken(transaction, [(record, why) for record in locked])

    async def close_denied(self, denied: Sequence[tuple[Due, CulvertError]]) -> None:
        """Close the denied tunnels that have not changed since the decision."""
        why = {tunnel.id: error for tunnel, error in denied}
        which = repository.is_as_decided([tunnel for tunnel, _ in denied])
        # Several callers compete here: the call that ended a permission, and the sweeps of all controllers.
        async with begin(self._database, CONTROLLER) as transaction:
            taken = await repository.take(transaction, which)
            closed = await self._close_taken(transaction, [(record, why[record.id]) for record in taken])
        await closed.finish()

    async def close_lost(self, link: Link, tunnels: Collection[tuple[uuid.UUID, int]]) -> None:
        """Close tunnels whose SAs the gateway has lost, if they are still at that generation."""
        why = CulvertError(Reason.SA_LOST, gateway=link.name)
        await self.close(CONTROLLER, why, repository.is_at_generation(tunnels))

    async def take(
        self, transaction: Transaction, why: CulvertError, which: Which, by: Actor
    ) -> list[TunnelRecord]:
        """Delete the tunnels that match, when a device closes its own. The caller calls `clear` after the commit."""
        taken = await repository.take(transaction, which)
        _audit(transaction, [(record, why) for record in taken], by)
        return taken

    async def finish(self, closed: Sequence[_Closed]) -> int:
        for record, why in closed:
            _log.info("tunnel closes", extra={"tunnel": str(record.id), "why": why.reason.name})
            self._hub.send(record.device_id, TunnelClosed(record.id, why))
        # Errors of `clear` are ignored: a link that ends cancels its waiting calls, and the reconciler removes the rest.
        await asyncio.wait([self._background.start(self.clear([record for record, _ in closed]))])
        return len(closed)

    async def clear(self, records: Sequence[TunnelRecord]) -> None:
        """Remove the entries of closed tunnels from their gateways. The reconciler removes what cannot be removed now."""
        elsewhere: defaultdict[str, list[list[Update]]] = defaultdict(list)
        for record in records:
            _log.info("tunnel closed", extra={"tunnel": str(record.id), "gateway": record.gateway})
            if self._fleet.get(record.gateway) is None:
                elsewhere[record.gateway] += record.build_removal()
            else:
                await self.remove(record.gateway, record.build_removal())
        for gateway, batches in elsewhere.items():
            await self.remove(gateway, batches)

    async def remove(self, gateway: str, batches: Sequence[Sequence[Update]]) -> None:
        if link := self._fleet.get(gateway):
            await link.remove(batches)
        else:
            await self._remote.remove(gateway, batches)

    async def _close_taken(self, transaction: Transaction, closed: Sequence[_Closed]) -> ClosedTunnels:
        _audit(transaction, closed, None)
        told = [(record.device_id, TunnelClosed(record.id, why)) for record, why in closed]
        await self._pushes.send(transaction.session, told)
        return ClosedTunnels(self, closed)


class Draining:
    """Ends old generations, and tunnels that have moved to another gateway, once their drain time is over."""

    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        closing: Closing,
        background: Background,
        after: datetime.timedelta,
    ) -> None:
        self._database = database
        self._fleet = fleet
        self._closing = closing
        self._background = background
        self._after = after

    def end_later(self, tunnel_id: uuid.UUID, gateway: str, generation: int) -> None:
        """End a draining generation after the drain time."""
        self._background.start_wait(self._end(tunnel_id, gateway, generation), f"drain {tunnel_id}")

    def close_later(self, tunnel: TunnelRecord) -> None:
        """Close a leaving tunnel after the drain time."""
        self._background.start_wait(self._close(tunnel), f"drain {tunnel.id}")

    async def _end(self, tunnel_id: uuid.UUID, gateway: str, generation: int) -> None:
        await asyncio.sleep(self._after.total_seconds())
        async with self._database.begin() as session:
            statements = InSession(session)
            record = await hot_queries.lock(statements, tunnel_id)
            if record is None or generation not in record.generations.draining:
                self._reconcile_soon(gateway)
                return
            gone = advance(record.generations, Drained(generation)).remove
            await hot_queries.delete_generations(statements, tunnel_id, gone)
        removal = [update for one in gone for update in remove_pair(record.path, record.pairs[one])]
        await self._closing.remove(gateway, [removal])

    async def _close(self, tunnel: TunnelRecord) -> None:
        await asyncio.sleep(self._after.total_seconds())
        async with self._database.begin() as session:
            left = await repository.take(InSession(session), repository.has_id(tunnel.id))
        if not left:
            self._reconcile_soon(tunnel.gateway)
        await self._closing.clear(left)

    def _reconcile_soon(self, gateway: str) -> None:
        """Another reconciliation removed the rows before this one, but not the entries."""
        if link := self._fleet.get(gateway):
            link.reconcile_soon()


def _audit(transaction: Transaction, closed: Sequence[_Closed], actor: Actor | None) -> None:
    for record, why in closed:
        details: dict[str, Detail] = {
            "device": str(record.device_id),
            "name": record.fqdn,
            "gateway": record.gateway,
        }
        transaction.audit(Line("tunnel.close", f"tunnel/{record.id}", details, why, actor=actor))
