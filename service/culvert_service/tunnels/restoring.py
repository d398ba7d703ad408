"""After a gateway lost SAs, as by a restart, their tunnels get fresh keys in batches, before their devices ask.

Keys are not stored, so a lost SA cannot be written again (RFC 9061 section 4.2). Its device is told to open again, and
gets the new keys, which wait here for 60 s and are given once. Devices that watch at this controller come first.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from culvert_db import Database
from culvert_proto import CulvertError, Reason
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from culvert_service.audit.log import CONTROLLER, Line
from culvert_service.audit.transaction import begin_uncommitted
from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.entry import inserts
from culvert_service.gateways.link import Link, portions
from culvert_service.gateways.sa import draw_spi, draw_tag
from culvert_service.gateways.tunnel_entries import Pair, install_pair, policy_entries
from culvert_service.tasks import Background
from culvert_service.tunnels import repository
from culvert_service.tunnels.closing import Closing
from culvert_service.tunnels.programming import NoTurn, PairKeys, program_and_commit, repeat_in_turn
from culvert_service.tunnels.record import TunnelRecord
from culvert_service.watch.hub import Hub, TunnelClosed
from culvert_service.watch.pushes import Pushes

_log = logging.getLogger(__name__)

_CLAIM_SECONDS = 60.0
# Tunnels in one transaction and one turn at the gateway.
_BATCH = 200
# Concurrent batches: while one waits for Postgres or the gateway, the next one is computed.
_TOGETHER = 2
_DRAWS = 4


@dataclass(frozen=True, slots=True)
class Restored:
    """A tunnel with its next pair."""

    record: TunnelRecord
    pair: Pair
    keys: PairKeys


class Restoring:
    def __init__(
        self,
        database: Database,
        hub: Hub,
        pushes: Pushes,
        closing: Closing,
        background: Background,
    ) -> None:
        self._database = database
        self._hub = hub
        self._pushes = pushes
        self._closing = closing
        self._background = background
        self._waiting: dict[uuid.UUID, Restored] = {}

    def claim(self, record: TunnelRecord, peer: str) -> Restored | None:
        """Return the waiting keys once, if they are the tunnel's newest and the device's address is unchanged."""
        found = self._waiting.pop(record.id, None)
        if found is None or found.pair.generation != record.generations.current:
            return None
        return found if record.path.peer_address == peer else None

    def check_not_lost(self, record: TunnelRecord) -> None:
        """For a device that asks about its SAs. Raises CulvertError SA_LOST while the keys after them wait for it."""
        found = self._waiting.get(record.id)
        if found is not None and found.pair.generation == record.generations.current:
            raise CulvertError(Reason.SA_LOST, gateway=record.gateway)

    async def restore(self, link: Link, lost: Sequence[DesiredTunnel]) -> None:
        """Raises CulvertError GATEWAY_DOWN; the next reconciliation restores the rest."""
        records = [cast(TunnelRecord, one.source) for one in lost]
        watched = [self._hub.watches(record.device_id) for record in records]
        for first in (True, False):
            them = [record for record, one in zip(records, watched, strict=True) if one is first]
            batches = (them[first : first + _BATCH] for first in range(0, len(them), _BATCH))
            try:
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(_TOGETHER):
                        tasks.create_task(self._restore_all(link, batches))
            except ExceptionGroup as group:
                raise group.exceptions[0] from None

    async def _restore_all(self, link: Link, batches: Iterator[Sequence[TunnelRecord]]) -> None:
        for batch in batches:
            try:
                restored = await self._restore_batch(link, batch)
            except (SQLAlchemyError, CulvertError) as error:
                if isinstance(error, CulvertError) and error.reason is Reason.GATEWAY_DOWN:
                    raise
                _log.warning(
                    "tunnels are not restored", extra={"gateway": link.name, "why": type(error).__name__}
                )
                await self._closing.close_lost(
                    link, [(record.id, record.generations.current) for record in batch]
                )
                continue
            self._background.start_wait(self._expire(link, restored), "restore")

    async def _restore_batch(self, link: Link, records: Sequence[TunnelRecord]) -> list[Restored]:
        """Repeat with other numbers when an SPI is taken: with tens of thousands of SPIs that happens."""
        for _ in range(_DRAWS - 1):
            with suppress(IntegrityError):
                return await repeat_in_turn(partial(self._restore, link, records))
        return await repeat_in_turn(partial(self._restore, link, records))

    async def _restore(self, link: Link, records: Sequence[TunnelRecord]) -> list[Restored] | NoTurn:
        why = CulvertError(Reason.SA_LOST, gateway=link.name)
        async with begin_uncommitted(self._database, CONTROLLER) as transaction:
            session = transaction.session
            free = await repository.lock_idle(
                session, [(record.id, record.generations.current) for record in records]
            )
            restored = [_renumber(record, link) for record in records if record.id in free]
            if not restored:
                return []
            await repository.renumber(session, [(one.record.id, one.pair) for one in restored])
            told = [
                (one.record.device_id, TunnelClosed(one.record.id, why, one.pair.generation - 1))
                for one in restored
            ]
            await self._pushes.send(session, told)
            line = Line("gateway.restore", f"gateway/{link.name}", {"tunnels": len(restored)}, why)
            transaction.audit(line)
            pairs = [
                update
                for one in restored
                for update in install_pair(
                    one.record.path, one.pair, one.keys.wrap_with(link.config.wrap_at(one.pair.crypto_port))
                )
            ]
            policies = [
                entry
                for one in restored
                for entry in policy_entries(one.record.path, one.pair.to_device.sa_id)
            ]
            batches = [*portions(pairs), *portions(inserts(*policies))]
            if none := await program_and_commit(transaction, link, batches):
                return none
        self._waiting |= {one.record.id: one for one in restored}
        for device_id, closed in told:
            self._hub.send(device_id, closed)
        return restored

    async def _expire(self, link: Link, restored: Sequence[Restored]) -> None:
        await asyncio.sleep(_CLAIM_SECONDS)
        left = [one for one in restored if self._waiting.get(one.record.id) is one]
        for one in left:
            del self._waiting[one.record.id]
        if left:
            await self._closing.close_lost(link, [(one.record.id, one.pair.generation) for one in left])


def _renumber(record: TunnelRecord, link: Link) -> Restored:
    """Keep the gateway's numbers, which are free again; draw new SPIs, because the device may still have the old ones.

    Raises CulvertError GATEWAY_REFUSED.
    """
    old = record.pairs[record.generations.current]
    generation = max(record.generations.numbers) + 1
    pair = Pair(
        generation,
        replace(old.to_gateway, spi=draw_spi()),
        replace(old.to_device, spi=draw_spi()),
        draw_tag(),
        link.place(),
    )
    return Restored(record, pair, PairKeys.new(record.path.suite))
