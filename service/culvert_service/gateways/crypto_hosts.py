"""A gateway's crypto hosts: a link to each, and their tables beside the gateway's own (docs/crypto-port.md).

              ┌ own tables ────────────────► gateway ── port 4 ── crypto host a
 HostedTables ┤                                 └────── port 5 ── crypto host b
              └ front, host_in, host_out, by port ─► link to a or b

The controller names a host's entries by the gateway's port to it, so the entries of a gateway and its hosts are one set,
and one reconciliation covers them. A host that does not answer has no entries: its SAs are lost, and restored elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

import grpc
from culvert_proto.phrases import Phrase

from culvert_service.gateways.encoding import Encoding
from culvert_service.gateways.entry import Entry, EntryKey, Kind, MatchValue, Update, entry
from culvert_service.gateways.key_wrap import KeyWrap
from culvert_service.gateways.p4runtime import Credentials, NotPrimaryError, P4RuntimeError, Session
from culvert_service.gateways.program import Program
from culvert_service.gateways.site import mac_number
from culvert_service.gateways.tables import Tables
from culvert_service.pki.own_certificates import OwnCertificates

_log = logging.getLogger(__name__)

_TABLES = ("front", "host_in", "host_out")
_CONNECT_SECONDS = 3.0
_RETRY_SECONDS = 0.5
_PROBE_EVERY_SECONDS = 0.25
# A host's SAs move within a second of its last answer.
_PROBE_SECONDS = 0.5
# A host whose port has carried requests and no answer in so many looks of the gateway's link is left alone for a while,
# which doubles each time: without SAs there are no requests that would show it well again.
_MUTE_LOOKS = 2
_MUTE_SECONDS = 10.0
_MUTE_MAX_SECONDS = 300.0
# Less than the time limit of the gateway's write, which a silent host must not end.
_WRITE_SECONDS = 0.6
_READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class CryptoHost:
    """The settings of a crypto host's link. `port`, `mac`: the gateway's, towards the host. `host_port`, `host_mac`: the
    host's, towards the gateway.
    """

    name: str
    p4runtime: str
    device_id: int
    port: int
    mac: str
    host_port: int
    host_mac: str
    # The next fields alone keep the link.
    draining: bool = field(compare=False)
    key_wrap: KeyWrap = field(compare=False)


class HostEvents(Protocol):
    def host_changed(self) -> None:
        """A host came or went: the entries that the gateway and its hosts should have are others."""
        ...


class HostLink:
    """`tables`: of a host that answers. `read`: the tables that a reconciliation has read. `usable`: that reconciliation
    has ended, so that the host has no entries from before.
    """

    def __init__(
        self, host: CryptoHost, epoch: int, program: Program, own: OwnCertificates, events: HostEvents
    ) -> None:
        self.host = host
        self.tables: Tables | None = None
        self.read: Tables | None = None
        self.usable = False
        self.reason: str | Phrase = Phrase("not connected yet")
        # The SAs at the last reading, and those placed since.
        self.load = 0
        self._epoch = epoch
        self._program = program
        self._own = own
        self._events = events
        self._silent = asyncio.Event()
        # The requests and answers of its port when the gateway's link last looked.
        self._counted: tuple[int, int] | None = None
        self._mute_looks = 0
        self._mute_seconds = _MUTE_SECONDS
        self._pause = _RETRY_SECONDS

    async def run(self) -> None:
        """Connect, and reconnect after each failure, until cancelled."""
        while True:
            try:
                await self._hold_session()
            except (P4RuntimeError, TimeoutError) as error:
                self._set_away(_words(error))
            except Exception as error:
                # A fault in one link must not end it for good.
                _log.exception("crypto host link failed", extra={"crypto_host": self.host.name})
                self._set_away(Phrase("the link failed: {error}", error=type(error).__name__))
            await asyncio.sleep(self._pause)
            self._pause = _RETRY_SECONDS

    def give_up(self) -> None:
        """The host has not answered in time: connect again."""
        self._set_away(Phrase("no answer within {seconds} s", seconds=f"{_WRITE_SECONDS:g}"))
        self._silent.set()

    def count(self, requests: int, answers: int) -> None:
        """Take the packets that its port has carried so far. A cable or a datapath may be dead where P4Runtime answers."""
        before, self._counted = self._counted, (requests, answers)
        if before is None or requests == before[0]:
            return
        if answers != before[1]:
            self._mute_looks, self._mute_seconds = 0, _MUTE_SECONDS
            return
        self._mute_looks += 1
        if self._mute_looks == _MUTE_LOOKS:
            self._pause = self._mute_seconds
            self._mute_seconds = min(2 * self._mute_seconds, _MUTE_MAX_SECONDS)
            self._set_away(
                Phrase("the gateway's port {port} carries no answers from it", port=self.host.port)
            )
            self._silent.set()

    async def _hold_session(self) -> None:
        host = self.host
        session = Session(
            host.name, host.p4runtime, host.device_id, self._epoch, self._program, Credentials.of(self._own)
        )
        self._silent.clear()
        self._counted, self._mute_looks = None, 0
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await session.open()
                tables = Tables(session, Encoding.of(self._program.p4info))
                known = await tables.keks()
            if known is not None and host.key_wrap.fingerprint not in known:
                return self._set_away(Phrase("it has another key-encryption key than the controller"))
            self.tables, self.reason = tables, Phrase("its entries are compared with the desired ones")
            _log.info("crypto host is online", extra={"crypto_host": host.name})
            self._events.host_changed()
            probing = asyncio.create_task(self._probe(tables))
            try:
                await asyncio.wait([session.ended, probing], return_when=asyncio.FIRST_COMPLETED)
            finally:
                probing.cancel()
                await asyncio.gather(probing, return_exceptions=True)
            if session.ended.done():
                raise session.ended.result()
            if not self._silent.is_set():
                self._set_away(Phrase("no answer within {seconds} s", seconds=f"{_PROBE_SECONDS:g}"))
        finally:
            await session.close()

    async def _probe(self, tables: Tables) -> None:
        """Returns when the host does not answer, to a probe or to another request."""
        with suppress(TimeoutError, P4RuntimeError):
            while True:
                async with asyncio.timeout(_PROBE_SECONDS):
                    async for _ in tables.whole(["front"]):
                        pass
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PROBE_EVERY_SECONDS):
                        await self._silent.wait()
                        return

    def _set_away(self, why: str | Phrase) -> None:
        was_there, self.tables, self.usable = self.tables is not None, None, False
        if was_there or why != self.reason:
            self.reason = why
            _log.warning("crypto host is offline", extra={"crypto_host": self.host.name, "reason": str(why)})
        if was_there:
            self._events.host_changed()


class HostDownError(P4RuntimeError):
    def __init__(self, name: str) -> None:
        super().__init__(
            grpc.StatusCode.FAILED_PRECONDITION,
            str(Phrase("its crypto host {host} does not answer", host=name)),
        )


class Hosts:
    """The links to a gateway's crypto hosts, by the gateway's port."""

    def __init__(self, epoch: int, program: Program, own: OwnCertificates, events: HostEvents) -> None:
        self._epoch = epoch
        self._program = program
        self._own = own
        self._events = events
        self._links: dict[int, HostLink] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def take(self, hosts: Iterable[CryptoHost]) -> None:
        """Start links to new hosts, and end those to hosts that are gone or have other settings."""
        wanted = {host.port: host for host in hosts}
        for port in list(self._links):
            if (host := wanted.get(port)) != self._links[port].host:
                del self._links[port]
                self._tasks.pop(port).cancel()
            elif host is not None:
                self._links[port].host = host
        for port, host in wanted.items():
            if port not in self._links:
                link = self._links[port] = HostLink(host, self._epoch, self._program, self._own, self._events)
                self._tasks[port] = asyncio.create_task(link.run(), name=f"crypto host {host.name}")

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        self._links.clear()
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def get(self, port: int) -> HostLink | None:
        return self._links.get(port)

    def links(self) -> Sequence[HostLink]:
        return list(self._links.values())

    def place(self) -> int | None:
        """The port to the host with the fewest SAs, which the caller adds one pair to; None: no host is usable."""
        usable = [it for it in self._links.values() if it.usable and not it.host.draining]
        if not usable:
            return None
        least = min(usable, key=lambda it: it.load)
        least.load += 2
        return least.host.port

    def static_entries(self) -> list[Entry]:
        """The gateway's ports to its hosts, and the hosts' ports to the gateway."""
        found: list[Entry] = []
        for link in self._links.values():
            host = link.host
            mac, host_mac = mac_number(host.mac), mac_number(host.host_mac)
            found += [
                entry("port_role", {"port": host.port, "vlan": 0}, "set_crypto", {"mac": mac}),
                entry("crypto_port", {"port": host.port}, "to_host", {"src_mac": mac, "dst_mac": host_mac}),
            ]
            if link.tables is not None:
                found.append(entry("front", {"port": host.port}, "serve", {"mac": host_mac}))
        return found

    async def look(self, tables: Tables) -> None:
        """Find hosts whose port of the gateway carries no answers. Raises P4RuntimeError."""
        used = {it.host.port: it for it in self._links.values() if it.usable}
        if used:
            requests = await tables.cells("crypto_requests", list(used))
            answers = await tables.cells("crypto_answers", list(used))
            for port, link in used.items():
                link.count(requests.get(port, 0), answers.get(port, 0))

    def settle(self) -> None:
        """After a reconciliation: the hosts that it has read are usable."""
        for link in self._links.values():
            if link.tables is not None and link.read is link.tables:
                link.usable, link.reason = True, ""


class HostedTables(Tables):
    """The tables of a gateway and of its hosts. Every method raises P4RuntimeError."""

    def __init__(self, session: Session, encoding: Encoding, hosts: Hosts) -> None:
        super().__init__(session, encoding)
        self._hosts = hosts

    async def write(self, updates: Sequence[Update], *, missing_ok: bool = False) -> None:
        """Write to the hosts, to the gateway, and then delete at the hosts: no entry of the gateway leads to an SA that its
        host lacks. Raises HostDownError before a write to the gateway.
        """
        own, before, after = _split(updates)
        for port, changes in before.items():
            await self._write_at(port, changes, missing_ok=missing_ok)
        if own:
            await super().write(own, missing_ok=missing_ok)
        for port, changes in after.items():
            # A host that is away loses these entries when it is back.
            with suppress(HostDownError):
                await self._write_at(port, changes, missing_ok=missing_ok)

    async def read_all(self) -> AsyncGenerator[Sequence[Entry]]:
        async for portion in super().read_all():
            yield portion
        for link in self._hosts.links():
            link.read = link.tables
            found = await self._read_at(link, None)
            link.load = sum(item.table != "front" for item in found)
            yield found

    async def under(self, keys: Sequence[EntryKey]) -> AsyncGenerator[Sequence[Entry]]:
        at_hosts: dict[int, list[EntryKey]] = defaultdict(list)
        own: list[EntryKey] = []
        for key in keys:
            if key[0] in _TABLES:
                at_hosts[_port(key[1])].append(key)
            else:
                own.append(key)
        async for portion in super().under(own):
            yield portion
        for port, wanted in at_hosts.items():
            if (link := self._hosts.get(port)) is not None:
                yield await self._read_at(link, wanted)

    async def _write_at(self, port: int, updates: Sequence[Update], *, missing_ok: bool) -> None:
        link = self._hosts.get(port)
        if link is None or link.tables is None:
            raise HostDownError(link.host.name if link else str(port))
        there = [
            replace(it, entry=_at(it.entry, link.host.host_port), before=it.before and _at(it.before, link.host.host_port))
            for it in updates
        ]  # fmt: skip
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await link.tables.write(there, missing_ok=missing_ok)
        except TimeoutError:
            link.give_up()
            raise HostDownError(link.host.name) from None
        except P4RuntimeError as error:
            if isinstance(error, NotPrimaryError) or error.faults:
                raise
            raise HostDownError(link.host.name) from None

    async def _read_at(self, link: HostLink, keys: Sequence[EntryKey] | None) -> list[Entry]:
        """A host that does not answer has none."""
        tables, host = link.tables, link.host
        if tables is None:
            return []
        if keys is None:
            reading = tables.read_all()
        else:
            reading = tables.under([(table, _match(match, host.host_port), at) for table, match, at in keys])
        found: list[Entry] = []
        try:
            async with asyncio.timeout(_READ_SECONDS):
                async for portion in reading:
                    found += [_at(it, host.port) for it in portion if _port(it.match) == host.host_port]
        except (TimeoutError, P4RuntimeError):
            link.give_up()
            return []
        return found


_ByPort = Mapping[int, Sequence[Update]]


def _split(updates: Sequence[Update]) -> tuple[list[Update], _ByPort, _ByPort]:
    """The gateway's own updates; and those at hosts, by port: before the gateway's, and after."""
    own: list[Update] = []
    before: dict[int, list[Update]] = defaultdict(list)
    after: dict[int, list[Update]] = defaultdict(list)
    for update in updates:
        if update.entry.table not in _TABLES:
            own.append(update)
        else:
            among = after if update.kind is Kind.DELETE else before
            among[_port(update.entry.match)].append(update)
    return own, before, after


def _port(match: Iterable[tuple[str, MatchValue]]) -> int:
    value = dict(match)["port"]
    assert isinstance(value, int)
    return value


def _match(match: tuple[tuple[str, MatchValue], ...], port: int) -> tuple[tuple[str, MatchValue], ...]:
    return tuple((name, port if name == "port" else value) for name, value in match)


def _at(item: Entry, port: int) -> Entry:
    return replace(item, match=_match(item.match, port))


def _words(error: Exception) -> str | Phrase:
    if isinstance(error, TimeoutError):
        return Phrase("no P4Runtime session within {seconds} s", seconds=f"{_CONNECT_SECONDS:g}")
    return str(error)
