"""One zone on one name server: `apply(desired)` makes our part of it equal to the desired names.

AXFR ──► diff ──► UPDATE, many names each ──► AXFR ──► diff ──► state of each record
(all over TCP with TSIG)                      verified: what the server serves, not what it said
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, cast

import dns.asyncbackend
import dns.asyncquery
import dns.exception
import dns.rcode
import dns.xfr
import dns.zone
from culvert_proto import CulvertError, Reason
from dns._asyncbackend import StreamSocket

from culvert_dns_updater import wire
from culvert_dns_updater.batch import Batch, Dispatch
from culvert_dns_updater.desired import Names, ZoneProfile
from culvert_dns_updater.diff import Change, Plan, diff
from culvert_dns_updater.records import TUNNEL_MARK, Address, ZoneContent, rrtype
from culvert_dns_updater.tsig_key import TsigKey


class _Backend(Protocol):
    """What we use of dnspython's, which has no annotations there."""

    async def make_socket(
        self,
        af: int,
        socktype: int,
        proto: int,
        source: None,
        destination: tuple[str, int],
        lifetime: float,
        /,
    ) -> StreamSocket: ...


class State(Enum):
    LIVE = "live"
    PENDING = "pending"
    REFUSED = "refused"
    FOREIGN = "foreign"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class RecordState:
    """`error` says why a record is not live; a pending one without error is about to be tried again. Until it is live,
    `wanted` are the values that it should have, and `found` those in the zone; None: not known.
    """

    state: State
    error: CulvertError | None = None
    wanted: tuple[str, ...] = ()
    found: tuple[str, ...] | None = None


# (name, type) -> state, for what is desired and for what waits to be withdrawn.
States = Mapping[tuple[str, str], RecordState]


@dataclass(frozen=True, slots=True)
class Applied:
    states: States
    serial: int
    sent: int


class WriteDeniedError(Exception):
    """The zone is another's to write by now."""


@dataclass(frozen=True, slots=True)
class Writing:
    """`announce` is told what is about to be written; `allowed` is asked before every message."""

    announce: Callable[[States], Awaitable[None]]
    allowed: Callable[[], bool]


class Zone:
    def __init__(self, profile: ZoneProfile, key: TsigKey, timeout: float) -> None:
        """`timeout` in seconds, for one exchange."""
        self._profile = profile
        self._key = key
        self._timeout = timeout

    async def apply(self, desired: Names, writing: Writing) -> Applied:
        """Idempotent. Raises CulvertError when nothing can be said of the zone: DNS_UPDATE_REFUSED, _UNREACHABLE;
        and WriteDeniedError.

        A server that fails on the way leaves each name as it was or as desired: an update is one message.
        """
        ownership = self._profile.ownership
        refusals: dict[str, CulvertError] = {}
        try:
            address = await self._address()
            observed, serial = await self._transfer(address)
            plan = diff(desired, observed, ownership)
            if plan.changes:
                await writing.announce(self._states(desired, observed, plan, {}))
                refusals = await self._update(address, plan.changes, writing.allowed)
                observed, serial = await self._transfer(address)
        except (dns.exception.DNSException, OSError, EOFError) as error:
            raise wire.fault(
                error, server=self._profile.server, zone=self._profile.origin, key=self._key
            ) from error
        after = diff(desired, observed, ownership)
        return Applied(self._states(desired, observed, after, refusals), serial, len(plan.changes))

    async def _address(self) -> str:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._profile.server, self._profile.port, type=socket.SOCK_STREAM)
        return str(found[0][4][0])

    async def _transfer(self, address: str) -> tuple[ZoneContent, int]:
        zone = dns.zone.Zone(self._profile.origin, relativize=False)
        query, _ = dns.xfr.make_query(zone, serial=None, keyring=self._key)
        await dns.asyncquery.inbound_xfr(
            address,
            zone,
            query,
            port=self._profile.port,
            timeout=self._timeout,
            # Of a whole transfer, which a large zone needs many messages for.
            lifetime=6 * self._timeout,
        )
        return wire.decode(zone), zone.get_soa().serial

    async def _update(
        self, address: str, changes: tuple[Change, ...], allowed: Callable[[], bool]
    ) -> dict[str, CulvertError]:
        """What was refused, by name. All messages share one connection."""
        refusals: dict[str, CulvertError] = {}
        dispatch = Dispatch(changes)
        async with self._connection(address) as connection:
            while batch := dispatch.next():
                if not allowed():
                    raise WriteDeniedError
                rcode = await self._send(batch, address, connection)
                if rcode == dns.rcode.NOERROR:
                    dispatch.accepted()
                elif rcode in wire.PREREQUISITE_FAILED and len(batch) == 1:
                    # Somebody was faster. The transfer that follows shows what they did.
                    dispatch.accepted()
                else:
                    error = wire.refused(rcode, server=self._profile.server, zone=self._profile.origin)
                    refusals |= {change.name: error for change in dispatch.refused(batch)}
        return refusals

    @contextlib.asynccontextmanager
    async def _connection(self, address: str) -> AsyncGenerator[StreamSocket]:
        backend = cast(_Backend, dns.asyncbackend.get_default_backend())
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        where = (address, self._profile.port)
        made = await backend.make_socket(family, socket.SOCK_STREAM, 0, None, where, self._timeout)
        async with made as connection:
            yield connection

    async def _send(self, batch: Batch, address: str, connection: StreamSocket) -> dns.rcode.Rcode:
        message = wire.encode(batch, self._profile.origin, self._key)
        answer = await dns.asyncquery.tcp(message, address, timeout=self._timeout, sock=connection)
        rcode = answer.rcode()
        if rcode == dns.rcode.NOERROR and not answer.had_tsig:
            raise dns.exception.FormError("the answer is not signed")
        return rcode

    def _states(
        self,
        desired: Mapping[str, frozenset[Address]],
        observed: ZoneContent,
        plan: Plan,
        refusals: Mapping[str, CulvertError],
    ) -> States:
        states: dict[tuple[str, str], RecordState] = {}
        for name, addresses in desired.items():
            types = record_types(addresses)
            if name in plan.live:
                states |= dict.fromkeys([(name, t) for t in types], RecordState(State.LIVE))
                continue
            if name in plan.foreign:
                error = CulvertError(Reason.DNS_RECORD_FOREIGN, name=name, zone=self._profile.origin)
                state = RecordState(State.FOREIGN, error)
            else:
                state = _unfinished(refusals.get(name))
                types = sorted({*types, *_ours(observed, name)})
            states |= {(name, t): _beside(state, name, t, addresses, observed) for t in types}
        for change in plan.changes:
            if change.kind == "withdraw":
                state = _unfinished(refusals.get(change.name))
                left = _ours(observed, change.name)
                states |= {
                    (change.name, t): _beside(state, change.name, t, frozenset(), observed) for t in left
                }
        return states


def record_types(addresses: frozenset[Address]) -> list[str]:
    return sorted({"TXT", *(rrtype(address) for address in addresses)})


def wanted_values(addresses: frozenset[Address], record_type: str) -> tuple[str, ...]:
    """Of a name at these addresses; nothing of one at none."""
    if record_type == "TXT":
        return (TUNNEL_MARK,) if addresses else ()
    return tuple(sorted(str(address) for address in addresses if rrtype(address) == record_type))


def _ours(observed: ZoneContent, name: str) -> list[str]:
    """The types among a name's that we own, or would."""
    return [t for t in observed.get(name, {}) if t in {"A", "AAAA", "TXT"}]


def _beside(
    state: RecordState, name: str, record_type: str, addresses: frozenset[Address], observed: ZoneContent
) -> RecordState:
    there = observed.get(name, {}).get(record_type)
    found = tuple(sorted(there.rdata)) if there else ()
    return replace(state, wanted=wanted_values(addresses, record_type), found=found)


def _unfinished(refusal: CulvertError | None) -> RecordState:
    return RecordState(State.PENDING) if refusal is None else RecordState(State.REFUSED, refusal)
