"""The keeper of a zone while its lease is held: a pass at each change, at the poll, and after a failure as scheduled.

resources change ──┐ (not while the zone as a whole backs off)
zones change ──────┼─► pass: intent ─► zone ─► states ─► wait
poll or backoff ───┘

A name that is refused has a backoff of its own (memory.py): others are published meanwhile.
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
from culvert_dns_updater.desired import Intent, Names, ZoneProfile, wanted
from culvert_dns_updater.instruments import Instruments
from culvert_dns_updater.memory import Memory
from culvert_dns_updater.states import RecordState, State, States, wanted_values
from culvert_dns_updater.store import Lease, LeaseLostError, Store, StoreError, ZoneReport
from culvert_dns_updater.tsig_key import KeyFileError, TsigKey
from culvert_dns_updater.zone import WriteDeniedError, Writing, Zone

_log = logging.getLogger(__name__)

# A zone is as bad as the worst of its records.
_FROM_WORST = (
    State.UNREACHABLE,
    State.REFUSED,
    State.PENDING,
    State.OCCLUDED,
    State.FOREIGN,
    State.LIVE,
)
# As good as it gets without a person.
_SETTLED = frozenset({State.LIVE, State.FOREIGN, State.OCCLUDED})


class Outcome(Enum):
    """The outcome of a pass. Only FAILED is tried again sooner than the poll: the others wait for a person."""

    LIVE = "live"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Means:
    """The parts shared by all keepers. `timeout` in seconds for one exchange with a name server."""

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
        # Passes in a row that have failed, and those among them after which nothing can be said of any name.
        self._failures = 0
        self._blind = 0
        self._told_at = time.monotonic()
        self._reported = ""

    def resources_changed(self) -> None:
        if not self._wake.is_set():
            self._told_at = time.monotonic()
        self._wake.set()

    def zones_changed(self) -> None:
        """A person may have mended the cause: do not wait for the backoff."""
        self.resources_changed()
        self._hurry.set()

    def stop(self) -> None:
        """Ends `run` after the pass that is under way: a pass is short, and none is left half done."""
        self._stopping = True
        self._wake.set()
        self._hurry.set()

    async def run(self, poll: float) -> None:
        """Until `stop`, or until the zone is gone. `poll` in seconds."""
        while not self._stopping:
            if not self._wake.is_set():
                # No notification announced the changes that this pass may find.
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
            await self._wait(schedule.poll_after(poll, time.monotonic() - began))

    async def once(self, intent: Intent) -> Outcome | None:
        """Make a pass; None when there is no such zone any more. Raises StoreError, LeaseLostError, WriteDeniedError."""
        profile = next((zone for zone in intent.zones if zone.id == self.lease.zone_id), None)
        if profile is None:
            return None
        names = wanted(profile, intent)
        try:
            applied = await self._zone(profile).apply(names, Writing(self._announce(profile), self._held))
        except CulvertError as error:
            self._blind += 1
            return await self._failed(profile, names, error)
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

    def _held(self) -> bool:
        return self.lease.held()

    def _announce(self, profile: ZoneProfile):
        async def announce(states: States) -> None:
            await self._record(profile, states, State.PENDING, None, finished=False)

        return announce

    async def _failed(self, profile: ZoneProfile, names: Names, error: CulvertError) -> Outcome:
        self._report(str(error), profile.name)
        state = State.UNREACHABLE if error.reason is Reason.DNS_UPDATE_UNREACHABLE else State.REFUSED
        keys = {(name, t) for name, addresses in names.items() for t in record_types(addresses)}
        keys |= set(await self._means.store.known(profile.name))
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
        """Log what is new; a fault that lasts is told once."""
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
    # Each foreign name has words of its own, and there may be thousands.
    more = f" (and {len(why) - 3} more)" if len(why) > 3 else ""
    return f"{len(waiting)} names not live: {' '.join(why[:3]) or 'trying again'}{more}"
