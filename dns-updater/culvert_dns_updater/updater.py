"""The loop: resources → zones → states, at each change, at the poll interval, and when the schedule says so.

NOTIFY culvert_resources ─┐
poll or backoff deadline ─┴─► one pass ─► dns_records
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Sequence
from enum import Enum

from culvert_proto import CulvertError, Reason

from culvert_dns_updater import schedule
from culvert_dns_updater.desired import desired
from culvert_dns_updater.records import Address
from culvert_dns_updater.store import Store, StoreError
from culvert_dns_updater.zone import RecordState, State, States, Zone, record_types

_log = logging.getLogger(__name__)

# The zone of rows for names that are in none of ours.
_NO_ZONE = ""

_RELISTEN_SECONDS = 1.0


class Outcome(Enum):
    """What a pass came to. Only FAILED is tried again sooner than the poll: a foreign name waits for a person."""

    LIVE = "live"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


class Updater:
    def __init__(self, store: Store, zones: Sequence[Zone]) -> None:
        self._store = store
        self.zones = tuple(zones)
        self._wake = asyncio.Event()
        self._stopping = False
        self._reported: dict[str, str] = {}

    async def run(self, poll: float) -> None:
        """Until `stop`. `poll` in seconds."""
        async with asyncio.TaskGroup() as tasks:
            listener = tasks.create_task(self._listen())
            failures = 0
            while not self._stopping:
                self._wake.clear()
                try:
                    outcome = await self.run_once()
                except StoreError as error:
                    self._report("database", str(error))
                    outcome = Outcome.FAILED
                failures = failures + 1 if outcome is Outcome.FAILED else 0
                # Jitter, not a secret.
                deadline = schedule.wait(failures, poll, random.random())  # noqa: S311
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0 if self._stopping else deadline):
                        await self._wake.wait()
            listener.cancel()

    def stop(self) -> None:
        """Ends `run` after the pass that is under way: a pass is short, and none is left half done."""
        self._stopping = True
        self._wake.set()

    async def run_once(self) -> Outcome:
        """One pass over all zones. Raises StoreError; what a name server does becomes states."""
        resources = await self._store.resources()
        self._report("database", "answers")
        wanted = desired(resources, tuple(zone.origin for zone in self.zones))
        await self._store.record(_NO_ZONE, _outside(resources, wanted.outside))
        outcomes = [await self._pass(zone, wanted.zones[zone.origin]) for zone in self.zones]
        if Outcome.FAILED in outcomes:
            return Outcome.FAILED
        return Outcome.INCOMPLETE if wanted.outside or Outcome.INCOMPLETE in outcomes else Outcome.LIVE

    async def _pass(self, zone: Zone, names: dict[str, frozenset[Address]]) -> Outcome:
        try:
            applied = await zone.apply(names)
        except CulvertError as error:
            self._report(zone.origin, str(error))
            state = State.PENDING if error.reason is Reason.DNS_UPDATE_UNREACHABLE else State.REFUSED
            keys = {(name, t) for name, addresses in names.items() for t in record_types(addresses)}
            keys |= set(await self._store.known(zone.origin))
            await self._store.record(zone.origin, dict.fromkeys(keys, RecordState(state, error)))
            return Outcome.FAILED
        for change in applied.sent:
            _log.info("%s: %s %s", zone.origin, change.kind, change.name)
        await self._store.record(zone.origin, applied.states)
        outcome, text = _judge(applied.states)
        self._report(zone.origin, text)
        return outcome

    async def _listen(self) -> None:
        while not self._stopping:
            try:
                async with self._store.changes(self._wake.set) as lost:
                    # What changed before we listened was not told.
                    self._wake.set()
                    await lost.wait()
            except StoreError:
                pass
            # The database is our own and near: no need to spare it, and a change waits for it.
            await asyncio.sleep(_RELISTEN_SECONDS)

    def _report(self, subject: str, text: str) -> None:
        """Log what is new; a fault that lasts is told once."""
        if self._reported.get(subject) != text:
            self._reported[subject] = text
            _log.info("%s: %s", subject, text)


def _judge(states: States) -> tuple[Outcome, str]:
    waiting = {name: state for (name, _), state in sorted(states.items()) if state.state is not State.LIVE}
    if not waiting:
        return Outcome.LIVE, f"{len({name for name, _ in states})} names live"
    why = {str(state.error) for state in waiting.values() if state.error is not None}
    text = f"{len(waiting)} names not live: {' '.join(sorted(why)) or 'trying again'}"
    waits_for_person = all(s.error and s.error.reason is Reason.DNS_RECORD_FOREIGN for s in waiting.values())
    return (Outcome.INCOMPLETE if waits_for_person else Outcome.FAILED), text


def _outside(resources: list[tuple[str, Address]], outside: frozenset[str]) -> States:
    return {
        (name, t): RecordState(
            State.REFUSED,
            CulvertError(
                Reason.REQUEST_INVALID, why=f"{name} is in none of the zones that dns-updater manages"
            ),
        )
        for name, address in resources
        if name in outside
        for t in record_types(frozenset({address}))
    }
