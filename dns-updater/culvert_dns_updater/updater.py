"""The process: claims leases of zones, runs a keeper for each own zone, and notifies the keepers of changes.

every third of a lease ─► claim ─┬─► keeper of one zone ─► its name server
NOTIFY ──────────────────────────┴─► keeper of another  ─► its name server
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from culvert_db.published import record_types
from culvert_proto import CulvertError, Reason

from culvert_dns_updater.desired import Intent, names_without_zone
from culvert_dns_updater.keeper import Keeper, Means, Outcome
from culvert_dns_updater.states import RecordState, State, States, wanted_values
from culvert_dns_updater.store import LeaseLostError, StoreError
from culvert_dns_updater.zone import WriteDeniedError

_log = logging.getLogger(__name__)

_RELISTEN_SECONDS = 1.0


class Updater:
    def __init__(self, means: Means) -> None:
        self._store = means.store
        self._means = means
        self._keepers: dict[int, tuple[Keeper, asyncio.Task[None]]] = {}
        self._wake = asyncio.Event()
        self._stopping = False
        self._answers, self._fault = False, ""
        self.instruments = means.instruments

    def is_ready(self) -> bool:
        """Whether the last query to the database succeeded."""
        return self._answers

    async def run(self, poll: float, lease_seconds: float) -> None:
        """Run until `stop`. Both arguments: seconds."""
        async with asyncio.TaskGroup() as tasks:
            listener = tasks.create_task(self._listen())
            while not self._stopping:
                self._wake.clear()
                try:
                    await self._share_out(tasks, poll)
                    self._report(None)
                except StoreError as error:
                    self._report(error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0 if self._stopping else lease_seconds / 3):
                        await self._wake.wait()
            listener.cancel()
            for keeper, _ in self._keepers.values():
                keeper.stop()
        with contextlib.suppress(StoreError):
            await self._store.release()

    def stop(self) -> None:
        """End `run` after the current passes, and release the leases."""
        self._stopping = True
        self._wake.set()

    async def run_once(self) -> Outcome:
        """Make one pass over all zones. Raises StoreError; faults of name servers become states."""
        leases = await self._store.claim()
        intent = await self._store.intent()
        outcomes = [await self._tell_unplaced(intent)]
        for zone in intent.zones:
            if zone.id not in leases:
                _log.info("another updater keeps it", extra={"zone": zone.name})
                outcomes.append(Outcome.INCOMPLETE)
                continue
            try:
                outcomes.append(await Keeper(leases[zone.id], self._means).once(intent) or Outcome.LIVE)
            except (LeaseLostError, WriteDeniedError):
                outcomes.append(Outcome.FAILED)
        await self._store.release()
        for worst in (Outcome.FAILED, Outcome.INCOMPLETE):
            if worst in outcomes:
                return worst
        return Outcome.LIVE

    async def _share_out(self, tasks: asyncio.TaskGroup, poll: float) -> None:
        """Renew own leases, claim ended ones, and stop the keepers of zones that another updater has."""
        leases = await self._store.claim()
        for zone_id in list(self._keepers):
            keeper, task = self._keepers[zone_id]
            if task.done():
                del self._keepers[zone_id]
            elif zone_id not in leases or leases[zone_id].epoch != keeper.lease.epoch:
                keeper.stop()
        for zone_id, lease in leases.items():
            if zone_id in self._keepers:
                keeper, _ = self._keepers[zone_id]
                if keeper.lease.epoch == lease.epoch:
                    keeper.lease = lease
            else:
                keeper = Keeper(lease, self._means)
                self._keepers[zone_id] = (keeper, tasks.create_task(keeper.run(poll)))
        await self._tell_unplaced(await self._store.intent())

    async def _tell_unplaced(self, intent: Intent) -> Outcome:
        states = _unplaced_states(intent)
        await self._store.record_unplaced(states)
        return Outcome.INCOMPLETE if states else Outcome.LIVE

    async def _listen(self) -> None:
        while not self._stopping:
            try:
                async with self._store.changes(self._resources_changed, self._zones_changed) as lost:
                    # Look for changes from before the connection, which were not notified.
                    self._zones_changed()
                    await lost.wait()
            except StoreError:
                pass
            # Reconnect soon and without back-off: changes wait for it.
            await asyncio.sleep(_RELISTEN_SECONDS)

    def _resources_changed(self) -> None:
        for keeper, _ in self._keepers.values():
            keeper.resources_changed()

    def _zones_changed(self) -> None:
        for keeper, _ in self._keepers.values():
            keeper.zones_changed()
        self._wake.set()

    def _report(self, fault: StoreError | None) -> None:
        """Log a fault unless it repeats the last one."""
        self.instruments.database.set(fault is None)
        self.instruments.zones.set(len(self._keepers))
        if fault is None and not self._answers:
            _log.info("the database answers")
        elif fault is not None and self._fault != str(fault):
            _log.warning("the database does not answer", extra={"why": str(fault)})
        self._answers, self._fault = fault is None, str(fault or "")


def _unplaced_states(intent: Intent) -> States:
    return {
        (name, t): RecordState(
            State.REFUSED,
            CulvertError(Reason.DNS_ZONE_MISSING, name=name),
            wanted_values(addresses, t),
        )
        for name, addresses in names_without_zone(intent).items()
        for t in record_types(addresses)
    }
