"""Executes the steps of keys.py for the site tunnels whose first gateway this controller owns.

Reads their rows every second, after notices of changes and soft limits, and when a gateway goes online or offline.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import uuid
from collections.abc import Awaitable, Collection

from culvert_db import Database, SiteTunnel, SiteTunnelState
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_service.audit.log import CONTROLLER, Line
from culvert_service.audit.transaction import begin
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.key_wrap import new_sa_key
from culvert_service.metrics.instruments import Instruments
from culvert_service.site_tunnels import repository
from culvert_service.site_tunnels.keys import Forget, Install, Switch, next_step
from culvert_service.site_tunnels.programming import Programming
from culvert_service.site_tunnels.record import SiteTunnelRecord
from culvert_service.tasks import Periodic

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
# The delay before a failed step is repeated; it doubles with each failure.
_AGAIN_SECONDS, _AGAIN_MAX_SECONDS = 1.0, 60.0


class Keying:
    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        programming: Programming,
        instruments: Instruments,
        drain: datetime.timedelta,
    ) -> None:
        self._database = database
        self._fleet = fleet
        self._programming = programming
        self._instruments = instruments
        self._drain = drain
        self._asked: dict[uuid.UUID, int] = {}
        self._patience: dict[uuid.UUID, tuple[float, float]] = {}
        self._looks = Periodic("site tunnels", self._look, _LOOK_SECONDS)

    async def start(self) -> None:
        self._looks.start()

    async def stop(self) -> None:
        await self._looks.stop()

    def look_soon(self, payload: str | None = None) -> None:
        """Called by the database listener. `payload`: empty, or "TUNNEL_ID GENERATION" of keys that must be renewed."""
        if payload:
            tunnel, _, generation = payload.partition(" ")
            self._asked[uuid.UUID(tunnel)] = int(generation)
        self._looks.wake()

    async def _look(self) -> None:
        async with self._database() as session:
            found = await repository.records(session)
        known = {record.id for record in found}
        self._asked = {tunnel: asked for tunnel, asked in self._asked.items() if tunnel in known}
        self._patience = {tunnel: until for tunnel, until in self._patience.items() if tunnel in known}
        ours = [record for record in found if self._fleet.get(record.ends[0].gateway) is not None]
        await asyncio.gather(*(self._look_after(record) for record in ours))

    async def _look_after(self, record: SiteTunnelRecord) -> None:
        now = asyncio.get_running_loop().time()
        not_before, patience = self._patience.get(record.id, (0.0, _AGAIN_SECONDS))
        if now < not_before:
            return
        try:
            await self._go_on(record)
            self._patience.pop(record.id, None)
        except CulvertError as error:
            self._patience[record.id] = (now + patience, min(2 * patience, _AGAIN_MAX_SECONDS))
            _log.warning(
                "a site tunnel's keys wait", extra={"site_tunnel": record.name, "why": error.message}
            )
            async with self._database.begin() as session:
                await repository.trouble(session, record.id, error.message)

    async def _go_on(self, record: SiteTunnelRecord) -> None:
        """Take a step, and the following steps that are possible at once. Raises CulvertError."""
        current: SiteTunnelRecord | None = record
        while current is not None:
            match next_step(current.keys, self._asked.get(record.id)):
                case Forget(generations):
                    await self._forget(current, generations)
                case Switch(before):
                    await self._switch(current, before)
                case Install(generation):
                    if not all(self._fleet.is_online(end.gateway) for end in current.ends):
                        return
                    await self._renew(current, generation)
                case None:
                    return
            current = await self._again(record.id)

    async def _again(self, tunnel_id: uuid.UUID) -> SiteTunnelRecord | None:
        async with self._database() as session:
            found = await repository.records(session, SiteTunnel.id == tunnel_id)
        return found[0] if found else None

    async def _forget(self, record: SiteTunnelRecord, generations: Collection[int]) -> None:
        # First the entries, then the rows: the numbers stay taken as long as a gateway may hold them.
        removed = await self._programming.remove(record, generations)
        async with self._database.begin() as session:
            await repository.delete_generations(session, record.id, generations)
        if not removed:
            # A reconciler may have read the rows before they were deleted.
            await self._programming.reconcile(record)

    async def _switch(self, record: SiteTunnelRecord, before: Collection[int]) -> None:
        await _both(*(self._programming.switch(record, end) for end in record.ends))
        generation = record.keys.current
        async with self._database.begin() as session:
            done = await repository.record_switch(session, record, before, self._drain)
        if not done:
            # The tunnel changed meanwhile, so the written entries may be outdated.
            await self._programming.reconcile(record)
            return
        if before:
            self._instruments.rekeys.labels("gateways").inc()
        _log.info("site tunnel switched", extra={"site_tunnel": record.name, "generation": generation})

    async def _renew(self, record: SiteTunnelRecord, generation: int) -> None:
        """Install a pair at both gateways, then make it the current one in the rows."""
        async with self._database.begin() as session:
            row = await repository.lock_tunnel(session, SiteTunnel.id == record.id)
            if row is None or row.generation != record.keys.current:
                return
            ports = self._fleet.place(row.a.name), self._fleet.place(row.b.name)
            if not await repository.insert_pairs(session, row, generation, ports):
                gateways = " or ".join(end.gateway for end in record.ends)
                raise CulvertError(Reason.GATEWAY_REFUSED, gateway=gateways, why=Phrase("no free SA numbers"))
        numbered = await self._again(record.id)
        if numbered is None:
            return
        one, other = numbered.ends
        suite = one.pairs[generation][0].suite
        to_one, to_other = new_sa_key(suite), new_sa_key(suite)
        try:
            await _both(
                self._programming.install(numbered, one, generation, to_one, to_other),
                self._programming.install(numbered, other, generation, to_other, to_one),
            )
        except CulvertError:
            await self._forget(numbered, {generation})
            raise
        if not await self._make_current(numbered, generation):
            await self._programming.remove(numbered, {generation})
            return
        _log.info("site tunnel keyed", extra={"site_tunnel": record.name, "generation": generation})

    async def _make_current(self, record: SiteTunnelRecord, generation: int) -> bool:
        """False if the tunnel was changed, deleted or taken over by another controller meanwhile."""
        async with begin(self._database, CONTROLLER) as transaction:
            row = await repository.lock_tunnel(transaction.session, SiteTunnel.id == record.id)
            if row is None or (row.generation, row.version) != (record.keys.current, record.version):
                return False
            if not any(sa.generation == generation for sa in row.sas):
                return False
            if row.state is SiteTunnelState.DOWN:
                transaction.audit(Line("site-tunnel.up", f"site-tunnel/{record.name}"))
            row.generation, row.state = generation, SiteTunnelState.SWITCHING
        return True


async def _both(*works: Awaitable[None]) -> None:
    """Wait until both have ended, then raise the error of one of them, if any."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if outcome is not None:
            raise outcome
