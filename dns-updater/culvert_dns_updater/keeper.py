"""The keeper of a zone while its lease is held: makes a pass at each change, at each poll, and after a failure.

resources change ──┐ (not during the zone's back-off)
zones change ──────┼─► pass: intent ─► zone ─► states ─► wait
poll or backoff ───┘

A refused name has a back-off of its own (memory.py); other names are published meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from culvert_db.published import record_types
from culvert_proto import CulvertError, Reason

from culvert_dns_updater import schedule
from culvert_dns_updater.desired import Intent, Names, ZoneProfile, names_in
from culvert_dns_updater.instruments import Instruments
from culvert_dns_updater.memory import Memory
from culvert_dns_updater.states import RecordState, State, States, wanted_values
from culvert_dns_updater.store import Lease, LeaseLostError, Store, StoreError, ZoneReport
from culvert_dns_updater.tsig_key import KeyFileError, TsigKey
from culvert_dns_updater.zone import WriteDeniedError, Writing, Zone

_log = logging.getLogger(__name__)

# A zone's state is the worst of its records' states.
_FROM_WORST = (
    State.UNREACHABLE,
    State.REFUSED,
    State.PENDING,
    State.OCCLUDED,
    State.FOREIGN,
    State.LIVE,
)
# States that only a person can improve.
_SETTLED = frozenset({State.LIVE, State.FOREIGN, State.OCCLUDED})


class Outcome(Enum):
    """The result of a pass. Only FAILED is repeated before the next poll; the others need a person."""

    LIVE = "live"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Means:
    """The parts shared by all keepers. `timeout`: seconds for an exchange with a name server."""

    store: Store
    keys: Callable[[str], TsigKey]
    timeout: float
    instruments: Instruments = field(default_factory=Instruments)


class Keeper:
    def __init__(self, lease: Lease, means: Means) -> None:
        self.lease: Lease = lease
        self._means = means
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._stopping = False
        self._memory = Memory()
        # Consecutive failed passes, and those of them that could not determine the state of any name.
        self._failures = 0
        self._blind = 0
        self._told_at = time.monotonic()
        self._reported = ""

    def resources_changed(self) -> None:
        if not self._wake.is_set():
            self._told_at = time.monotonic()
        self._wake.set()

    def zones_changed(self) -> None:
        """End the back-off: a person may have removed the cause."""
        self.resources_changed()
        self._hurry.set()

    def stop(self) -> None:
        """End `run` after the current pass, which is short and must not be interrupted."""
        self._stopping = True
        self._wake.set()
        self._hurry.set()

    async def run(self, poll: float) -> None:
        """Run until `stop`, or until the zone is deleted. `poll`: seconds."""
        took = 0.0
        while not self._stopping:
            if not self._wake.is_set():
                # Without a notification, changes count from now on.
                self._told_at = time.monotonic()
            if self._hurry.is_set():
                self._memory.forget()
            self._wake.clear()
            self._hurry.clear()
            began = time.monotonic()
            try:
                with self._means.instruments.pass_seconds.time():
                    intent = await self._means.store.intent()
                    outcome = await self.once(intent)
            except StoreError as error:
                self._report(str(error))
                outcome = Outcome.FAILED
                self._blind += 1
            except (LeaseLostError, WriteDeniedError):
                self._report("another updater keeps the zone by now")
                return
            if outcome is None:
                return
            self._failures = self._failures + 1 if outcome is Outcome.FAILED else 0
            took, before = time.monotonic() - began, took
            await self._wait(schedule.poll_after(poll, took, before))

    async def once(self, intent: Intent) -> Outcome | None:
        """Make a pass; None if the zone is deleted. Raises StoreError, LeaseLostError, WriteDeniedError."""
        profile = next((zone for zone in intent.zones if zone.id == self.lease.zone_id), None)
        if profile is None:
            return None
        names = names_in(profile, intent)
        try:
            applied = await self._zone(profile).apply(names, Writing(self._announce(profile), self._is_held))
        except CulvertError as error:
            self._blind += 1
            return await self._fail(profile, names, error)
        self._blind = 0
        if profile.retiring and not applied.states:
            await self._means.store.retire(profile.name, self.lease)
            self._report("retired", profile.name)
            return None
        if applied.written:
            self._means.instruments.written.labels(profile.name).inc(applied.written)
            _log.info("%d names written", applied.written, extra={"zone": profile.name})
        state, error = _worst(applied.states)
        await self._record(profile, applied.states, state, error or applied.limits, serial=applied.serial)
        self._report(_say(applied.states), profile.name)
        if state is State.LIVE:
            return self._count(profile, Outcome.LIVE)
        return self._count(profile, Outcome.INCOMPLETE if state in _SETTLED else Outcome.FAILED)

    async def _wait(self, poll: float) -> None:
        # Jitter, not a secret.
        seconds = schedule.wait(self._blind, poll, random.random())  # noqa: S311
        if not self._blind and (due := self._memory.due()) is not None:
            seconds = max(0.0, min(seconds, due - time.monotonic()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await (self._hurry if self._blind else self._wake).wait()

    def _zone(self, profile: ZoneProfile) -> Zone:
        try:
            key = self._means.keys(profile.key)
        except KeyFileError as error:
            raise CulvertError(
                Reason.DNS_KEY_UNUSABLE, key=profile.key, zone=profile.name, why=error
            ) from None
        return Zone(profile, key, self._means.timeout, self._memory)

    def _is_held(self) -> bool:
        return self.lease.is_held()

    def _announce(self, profile: ZoneProfile):
        async def announce(states: States) -> None:
            await self._record(profile, states, State.PENDING, None, finished=False)

        return announce

    async def _fail(self, profile: ZoneProfile, names: Names, error: CulvertError) -> Outcome:
        self._report(str(error), profile.name)
        state = State.UNREACHABLE if error.reason is Reason.DNS_UPDATE_UNREACHABLE else State.REFUSED
        keys = {(name, t) for name, addresses in names.items() for t in record_types(addresses)}
        keys |= set(await self._means.store.list_known(profile.name))
        states = {
            (name, t): RecordState(state, error, wanted_values(names.get(name, frozenset()), t))
            for name, t in keys
        }
        await self._record(profile, states, state, error)
        return self._count(profile, Outcome.FAILED)

    def _count(self, profile: ZoneProfile, outcome: Outcome) -> Outcome:
        self._means.instruments.passes.labels(profile.name, outcome.value).inc()
        return outcome

    async def _record(
        self,
        profile: ZoneProfile,
        states: States,
        state: State,
        error: CulvertError | None,
        *,
        serial: int | None = None,
        finished: bool = True,
    ) -> None:
        is_behind = state not in _SETTLED
        report = ZoneReport(
            state,
            error,
            serial,
            behind=is_behind,
            told_ago=time.monotonic() - self._told_at,
            failures=self._failures + 1 if is_behind and finished else 0,
            finished=finished,
        )
        await self._means.store.record(profile.name, self.lease, states, report)

    def _report(self, said: str, zone: str | None = None) -> None:
        """Log a message unless it repeats the last one."""
        if self._reported != said:
            self._reported = said
            _log.info("%s", said, extra={"zone": zone} if zone else {"zone_id": self.lease.zone_id})


def _worst(states: States) -> tuple[State, CulvertError | None]:
    worst = min(states.values(), key=lambda state: _FROM_WORST.index(state.state), default=None)
    return (State.LIVE, None) if worst is None else (worst.state, worst.error)


def _say(states: States) -> str:
    waiting = {name: state for (name, _), state in sorted(states.items()) if state.state is not State.LIVE}
    if not waiting:
        return f"{len({name for name, _ in states})} names live"
    why = sorted({str(state.error) for state in waiting.values() if state.error is not None})
    # Limit the texts: each foreign name has its own, and there may be thousands.
    more = f" (and {len(why) - 3} more)" if len(why) > 3 else ""
    return f"{len(waiting)} names not live: {' '.join(why[:3]) or 'trying again'}{more}"
