"""One zone on one name server: `apply(desired)` makes our part of it equal to the desired names.

AXFR ──► diff ──► UPDATE, one a name ──► AXFR ──► diff ──► state of each record
(all over TCP with TSIG)                 verified: what the server serves, not what it said
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import dns.asyncquery
import dns.exception
import dns.rcode
import dns.xfr
import dns.zone
from culvert_proto import CulvertError, Reason

from culvert_dns_updater import wire
from culvert_dns_updater.diff import Change, Plan, diff
from culvert_dns_updater.records import Address, Ownership, ZoneContent, rrtype
from culvert_dns_updater.tsig_key import TsigKey


class State(Enum):
    LIVE = "live"
    PENDING = "pending"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RecordState:
    """`error` says why a record is not live; a pending one without error is about to be tried again."""

    state: State
    error: CulvertError | None = None


# (name, type) -> state, for what is desired and for what waits to be withdrawn.
States = Mapping[tuple[str, str], RecordState]


@dataclass(frozen=True, slots=True)
class Applied:
    states: States
    sent: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Server:
    """`host` is a name or an address; `timeout` in seconds for one exchange."""

    host: str
    port: int
    timeout: float

    async def address(self) -> str:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        return str(found[0][4][0])


class Zone:
    def __init__(self, origin: str, server: Server, ownership: Ownership, key: Callable[[], TsigKey]) -> None:
        """`key` is asked at each `apply`, so that a key that was corrected is used without a restart."""
        self.origin = origin
        self._server = server
        self._ownership = ownership
        self._key = key

    async def apply(self, desired: Mapping[str, frozenset[Address]]) -> Applied:
        """Idempotent. Raises CulvertError when nothing can be said of the zone: DNS_UPDATE_REFUSED, _UNREACHABLE.

        A server that fails on the way leaves each name as it was or as desired: an update is one message.
        """
        key = self._key()
        try:
            address = await self._server.address()
            observed = await self._transfer(address, key)
            plan = diff(desired, observed, self._ownership)
            refusals: dict[str, CulvertError] = {}
            for change in plan.changes:
                error = await self._send(change, address, key)
                if error is not None:
                    refusals[change.name] = error
            if plan.changes:
                observed = await self._transfer(address, key)
        except (dns.exception.DNSException, OSError, EOFError) as error:
            raise wire.fault(error, server=self._server.host, zone=self.origin, key=key) from error
        after = diff(desired, observed, self._ownership)
        return Applied(self._states(desired, observed, after, refusals), plan.changes)

    async def _transfer(self, address: str, key: TsigKey) -> ZoneContent:
        zone = dns.zone.Zone(self.origin, relativize=False)
        query, _ = dns.xfr.make_query(zone, serial=None, keyring=key)
        timeout = self._server.timeout
        await dns.asyncquery.inbound_xfr(
            address, zone, query, port=self._server.port, timeout=timeout, lifetime=timeout
        )
        return wire.decode(zone)

    async def _send(self, change: Change, address: str, key: TsigKey) -> CulvertError | None:
        message = wire.encode(change, self.origin, key)
        answer = await dns.asyncquery.tcp(
            message, address, timeout=self._server.timeout, port=self._server.port
        )
        rcode = answer.rcode()
        if rcode in wire.PREREQUISITE_FAILED:
            # Somebody was faster. The transfer that follows shows what they did.
            return None
        if rcode != dns.rcode.NOERROR:
            return wire.refused(rcode, server=self._server.host, zone=self.origin)
        if not answer.had_tsig:
            raise dns.exception.FormError("the answer is not signed")
        return None

    def _states(
        self,
        desired: Mapping[str, frozenset[Address]],
        observed: ZoneContent,
        after: Plan,
        refusals: Mapping[str, CulvertError],
    ) -> States:
        states: dict[tuple[str, str], RecordState] = {}
        for name, addresses in desired.items():
            if name in after.live:
                state = RecordState(State.LIVE)
            elif name in after.foreign:
                error = CulvertError(Reason.DNS_RECORD_FOREIGN, name=name, zone=self.origin)
                state = RecordState(State.REFUSED, error)
            else:
                state = _unfinished(refusals.get(name))
            states |= dict.fromkeys([(name, t) for t in record_types(addresses)], state)
        for change in after.changes:
            if change.kind == "withdraw":
                left = [(change.name, t) for t in observed.get(change.name, {}) if t in {"A", "AAAA", "TXT"}]
                states |= dict.fromkeys(left, _unfinished(refusals.get(change.name)))
        return states


def record_types(addresses: frozenset[Address]) -> list[str]:
    return sorted({"TXT", *(rrtype(address) for address in addresses)})


def _unfinished(refusal: CulvertError | None) -> RecordState:
    return RecordState(State.PENDING) if refusal is None else RecordState(State.REFUSED, refusal)
