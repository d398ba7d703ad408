"""A zone on a name server: `apply(desired)` makes the owned records equal to the desired names.

AXFR ──► diff ──► UPDATE, many names each ──► AXFR ──► diff ──► queries ──► state of each record
(all over TCP with TSIG)                      the zone's content          the server's answers
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import dns.exception
import dns.message
import dns.rcode
import dns.tsig
from culvert_db.published import record_types
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_dns_updater import serving, wire
from culvert_dns_updater.batch import Batch, Dispatch
from culvert_dns_updater.connection import Connection, addresses_of, connect
from culvert_dns_updater.desired import Names, ZoneProfile
from culvert_dns_updater.diff import Change, DeleteRecord, Plan, diff
from culvert_dns_updater.memory import Memory
from culvert_dns_updater.records import ZoneContent
from culvert_dns_updater.states import (
    RecordState,
    State,
    States,
    occluded_state,
    states_of,
    wanted_values,
)
from culvert_dns_updater.transfer import Content, Transfer
from culvert_dns_updater.tsig_key import TsigKey

_log = logging.getLogger(__name__)

# Our tunables: seconds between reads after an update, which a server that signs or forwards shows with a delay.
_LOOKS = (0.1, 0.4, 1.5)
# The most queries sent before the first answer is read.
_QUESTIONS_AT_ONCE = 50
_PROGRESS_SECONDS = 5.0

# Values that no real record has.
_NOT_THERE = {"A": "192.0.2.0", "AAAA": "2001:db8::", "TXT": '"culvert-probe"'}

_FAULTS = (dns.exception.DNSException, OSError, EOFError)


@dataclass(frozen=True, slots=True)
class Applied:
    """`written`: the number of names that the zone has as sent; `limits`: types that the key may not write, if known."""

    states: States
    serial: int
    written: int
    limits: CulvertError | None


class WriteDeniedError(Exception):
    """Another updater may write the zone now."""


@dataclass(frozen=True, slots=True)
class Writing:
    """`announce` is called with the changes before they are written; `allowed` is called before every message."""

    announce: Callable[[States], Awaitable[None]]
    allowed: Callable[[], bool]


@dataclass(slots=True)
class _Sent:
    """The result of a pass's changes. `accepted`: the names of the changes that the server has accepted."""

    accepted: set[str] = field(default_factory=set)
    refused: dict[Change, CulvertError] = field(default_factory=dict)
    untried: dict[Change, CulvertError] = field(default_factory=dict)


class Zone:
    def __init__(self, profile: ZoneProfile, key: TsigKey, timeout: float, memory: Memory) -> None:
        """`timeout`: seconds for a message."""
        self._profile = profile
        self._key = key
        self._timeout = timeout
        self._memory = memory

    async def apply(self, desired: Names, writing: Writing) -> Applied:
        """Idempotent. Raises CulvertError if the state of no name can be determined, and WriteDeniedError.

        If the server fails meanwhile, each name is either unchanged or as desired, because messages are atomic.
        """
        address, (observed, serial) = await self._first_transfer(desired)
        plan = self._diff(desired, observed)
        waiting = self._memory.list_waiting(time.monotonic())
        due = tuple(change for change in plan.changes if change not in waiting)
        sent, after = _Sent(), plan
        errors = {change.name: error for change, error in waiting.items()}
        try:
            if due:
                known = {name: it for name, it in self._memory.unserved.items() if name in plan.live}
                await writing.announce(
                    states_of(desired, observed, plan, errors, known, self._profile.origin)
                )
                sent = await self._update(address, due, writing.allowed)
                observed, serial, after = await self._look(address, desired, sent.accepted)
            ignored = [change for change in after.changes if change.name in sent.accepted]
            sent.refused |= {change: self._ignored_error(change) for change in ignored}
            errors |= {change.name: error for change, error in (sent.refused | sent.untried).items()}
            unserved = await self._find_unserved(address, {name: desired[name] for name in after.live})
            if not self._memory.knows_limits and (ours := sent.accepted or set(after.live)):
                await self._learn_limits(address, min(ours), writing.allowed)
        except _FAULTS as error:
            raise self._fault(error) from error
        # Jitter, not a secret.
        chance = random.random()  # noqa: S311
        is_unfinished = (
            bool(sent.untried)
            or any(change.name not in errors for change in after.changes)
            or any(it.state is State.PENDING for it in unserved.values())
        )
        self._memory.note(plan.changes, sent.refused, is_unfinished, time.monotonic(), chance)
        written = (
            {change.name for change in due} - {change.name for change in after.changes} - after.foreign.keys()
        )
        states = states_of(desired, observed, after, errors, unserved, self._profile.origin)
        return Applied(states, serial, len(written), self._memory.limits)

    def _diff(self, desired: Names, observed: ZoneContent) -> Plan:
        return diff(desired, observed, self._profile.ownership, self._profile.origin)

    async def _first_transfer(self, desired: Names) -> tuple[str, tuple[ZoneContent, int]]:
        """Transfer from the first of the server's addresses that answers; the last pass's address is tried first."""
        server, failed = self._profile.server, list[tuple[str, str]]()
        try:
            addresses = await addresses_of(server, self._profile.port, self._timeout)
        except OSError as error:
            why = wire.cause(error, self._timeout)
            raise self._unreachable(Phrase("its name has no address ({why})", why=why)) from error
        for address in sorted(addresses, key=lambda it: it != self._memory.server):
            try:
                found = await self._transfer(address, desired)
            except (OSError, EOFError) as error:
                failed.append((address, wire.cause(error, self._timeout)))
            except dns.exception.DNSException as error:
                raise self._fault(error, is_transfer=True) from error
            else:
                self._memory.server = address
                return address, found
        told = (why if address == server else f"{address}: {why}" for address, why in failed)
        raise self._unreachable("; ".join(told))

    async def _transfer(self, address: str, desired: Names) -> tuple[ZoneContent, int]:
        transfer = Transfer(self._profile.origin, self._key)
        told_at = time.monotonic()
        async with self._connect(address) as connection:
            await connection.send(transfer.query)
            # The timeout is for each message, so a large zone may take longer.
            while not transfer.receive(await connection.receive(), time.time()):
                if time.monotonic() > told_at + _PROGRESS_SECONDS:
                    told_at = time.monotonic()
                    _log.info(
                        "reads the zone: %d records", transfer.records, extra={"zone": self._profile.name}
                    )
        content = Content(transfer.find_needed(desired))
        for message in transfer.messages:
            content.add(message)
            # Let other tasks run, which renew the leases.
            await asyncio.sleep(0)
        return content.to_zone_content(), transfer.serial

    async def _look(self, address: str, desired: Names, accepted: set[str]) -> tuple[ZoneContent, int, Plan]:
        """Read the zone after an update."""
        pauses = iter(_LOOKS)
        while True:
            observed, serial = await self._transfer(address, desired)
            plan = self._diff(desired, observed)
            pause = next(pauses, None)
            if pause is None or not accepted & {change.name for change in plan.changes}:
                return observed, serial, plan
            await asyncio.sleep(pause)

    async def _update(self, address: str, changes: Batch, allowed: Callable[[], bool]) -> _Sent:
        """All messages share one connection."""
        sent = _Sent()
        # In random order: if a pass is given up after many refusals, the next one tries other changes first.
        dispatch = Dispatch(random.sample(changes, len(changes)), is_welcome=self._memory.is_welcome)
        async with self._connect(address) as connection:
            while batch := dispatch.next():
                if not allowed():
                    raise WriteDeniedError
                rcode = await self._send(batch, connection)
                if rcode == dns.rcode.NOERROR:
                    dispatch.accept()
                    self._memory.is_welcome = True
                    sent.accepted |= {change.name for change in batch}
                elif rcode in wire.PREREQUISITE_FAILED and len(batch) == 1:
                    # Another program has changed the zone; the next transfer shows its change.
                    dispatch.accept()
                elif dispatch.refuse(batch):
                    refused = wire.refusal_error(
                        rcode, server=self._profile.server, zone=self._profile.origin
                    )
                    error = refused
                    if rcode == dns.rcode.REFUSED:
                        error = await self._refusal(batch[0], connection) or refused
                    if self._memory.is_welcome:
                        dispatch.accept()
                    sent.refused[batch[0]] = error
                    sent.untried = dict.fromkeys(dispatch.list_untried(), refused)
        return sent

    async def _learn_limits(self, address: str, name: str, allowed: Callable[[], bool]) -> None:
        """Learn which types the key may not write, by an update that changes nothing. `name`: an owned name."""
        probe, denied = Change("replace", name, (), ()), list[str]()
        async with self._connect(address) as connection:
            for record_type in _NOT_THERE:
                if not allowed():
                    raise WriteDeniedError
                if await self._is_denied(probe, (name, record_type), connection):
                    denied.append(record_type)
        self._memory.knows_limits, self._memory.limits = True, None
        if denied:
            types = ", ".join(denied)
            self._memory.limits = self._limit_error(name, types)
            told = "the key %s may not write %s: no resource at such an address will be published"
            _log.warning(told, self._profile.key, types, extra={"zone": self._profile.name})

    async def _refusal(self, change: Change, connection: Connection) -> CulvertError | None:
        """The cause of this change's refusal; None if nothing distinguishes it from accepted ones. The parts of it that the
        key may write are written.
        """
        # An update that changes nothing shows whether the key may write an RRset. TXT distinguishes a limited key from one
        # that may write nothing.
        asked = dict.fromkeys([*change.rrsets, (change.name, "TXT")])
        denied = {rrset for rrset in asked if await self._is_denied(change, rrset, connection)}
        if denied == asked.keys():
            return None
        denied &= {*change.rrsets}
        if not denied:
            why = wire.why_name(change.name)
            return CulvertError(
                Reason.DNS_NAME_REFUSED, server=self._profile.server, name=change.name, why=why
            )
        part = change.without(frozenset(denied))
        if part is not None and await self._send((part,), connection) == dns.rcode.NOERROR:
            self._memory.is_welcome = True
        return self._limit_error(change.name, _types(denied, change))

    def _limit_error(self, name: str, types: str) -> CulvertError:
        named = {"key": self._profile.key, "zone": self._profile.origin}
        return CulvertError(Reason.DNS_KEY_LIMITED, name=name, types=types, **named)

    async def _is_denied(self, change: Change, rrset: tuple[str, str], connection: Connection) -> bool:
        nothing = DeleteRecord(*rrset, _NOT_THERE[rrset[1]])
        probe = replace(change, edits=(nothing,))
        return await self._send((probe,), connection) == dns.rcode.REFUSED

    async def _find_unserved(self, address: str, live: Names) -> Mapping[str, RecordState]:
        """The names that are as desired in the zone, but not in the server's answers."""
        memory, now = self._memory, time.monotonic()
        memory.served = {name: it for name, it in memory.served.items() if name in live}
        asked = {name for name, addresses in live.items() if not memory.is_served(name, addresses, now)}
        questions = [(name, t) for name in sorted(asked) for t in record_types(live[name])]
        unserved: dict[str, RecordState] = {}
        for start in range(0, len(questions), _QUESTIONS_AT_ONCE):
            unserved |= await self._ask(address, questions[start : start + _QUESTIONS_AT_ONCE], live)
        memory.served |= {name: (live[name], now) for name in asked - unserved.keys()}
        memory.unserved = unserved
        return unserved

    async def _ask(
        self, address: str, questions: Iterable[tuple[str, str]], live: Names
    ) -> Mapping[str, RecordState]:
        differences: dict[str, tuple[str, str | None, str]] = {}
        waiting: dict[int, tuple[dns.message.Message, str, str]] = {}
        for number, (name, t) in enumerate(questions):
            query = serving.question(name, t)
            query.id = number
            query.use_tsig(self._key)
            waiting[number] = (query, name, t)
        try:
            async with self._connect(address) as connection:
                for query, _, _ in waiting.values():
                    await connection.send(query.to_wire())
                while waiting:
                    answer = await connection.receive()
                    query, name, t = waiting[int.from_bytes(answer[:2])]
                    wanted = frozenset(wanted_values(live[name], t))
                    told = self._parse(answer, query)
                    if found := serving.difference(told, name, t, wanted, self._profile.origin):
                        # Answers arrive in any order, so pick the least one.
                        differences[name] = min(differences.get(name, (t, *found)), (t, *found))
                    del waiting[query.id]
        except (*_FAULTS, KeyError) as error:
            is_line = isinstance(error, OSError | EOFError)
            why = wire.cause(error, self._timeout) if is_line else Phrase("its answer is malformed")
            differences |= {name: (t, None, why) for _, name, t in waiting.values()}
        return {name: self._not_served(name, cut, why) for name, (_, cut, why) in differences.items()}

    def _not_served(self, name: str, cut: str | None, why: str) -> RecordState:
        zone = self._profile.origin
        if cut is not None:
            return occluded_state(name, zone, cut, why)
        server = self._profile.server
        error = CulvertError(Reason.DNS_NAME_NOT_SERVED, name=name, zone=zone, server=server, why=why)
        return RecordState(State.PENDING, error)

    async def _send(self, changes: Iterable[Change], connection: Connection) -> dns.rcode.Rcode:
        message = wire.encode(changes, self._profile.origin, self._key)
        await connection.send(message.to_wire())
        try:
            answer = self._parse(await connection.receive(), message)
        except dns.tsig.PeerBadKey:
            # The transfer has proven that the server knows the key: Knot DNS answers so if its ACL forbids the update.
            return dns.rcode.REFUSED
        rcode = answer.rcode()
        if rcode == dns.rcode.NOERROR and not answer.had_tsig:
            raise dns.exception.FormError("the answer is not signed")
        return rcode

    def _parse(self, answer: bytes, query: dns.message.Message) -> dns.message.Message:
        message = dns.message.from_wire(answer, keyring=self._key, request_mac=query.mac)
        if not query.is_response(message):
            raise dns.exception.FormError("the answer is not to what was asked")
        return message

    def _connect(self, address: str) -> contextlib.AbstractAsyncContextManager[Connection]:
        return connect(address, self._profile.port, self._timeout)

    def _ignored_error(self, change: Change) -> CulvertError:
        server, zone = self._profile.server, self._profile.origin
        return CulvertError(
            Reason.DNS_UPDATE_IGNORED,
            server=server,
            name=change.name,
            zone=zone,
            types=_types(change.rrsets, change),
        )

    def _unreachable(self, why: str) -> CulvertError:
        return CulvertError(Reason.DNS_UPDATE_UNREACHABLE, server=self._profile.server, why=why)

    def _fault(
        self, error: dns.exception.DNSException | OSError | EOFError, *, is_transfer: bool = False
    ) -> CulvertError:
        if isinstance(error, OSError | EOFError):
            return self._unreachable(wire.cause(error, self._timeout))
        server, zone = self._profile.server, self._profile.origin
        return wire.fault(error, server=server, zone=zone, key=self._key, is_transfer=is_transfer)


def _types(rrsets: Iterable[tuple[str, str]], change: Change) -> str:
    return ", ".join(t if name == change.name else f"{t} of {name}" for name, t in sorted(rrsets))
