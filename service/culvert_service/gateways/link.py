"""A gateway over P4Runtime: keeps a session, writes with undo, reads entries, passes digests on.

  connect, or take the gateway's connection,
          arbitrate, push the pipeline                   reconciled
OFFLINE ─────────────────────────────────────► PREPARING ──────────► ONLINE
   ▲                                               │                    │ stream ends, probe or write unanswered,
   └── wait 0.5 s, reason kept ◄───────────────────┴────────────────────┘ another controller takes over
       at once, RECONNECTING, after a steady session
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Protocol

from culvert_proto import CulvertError, Reason
from culvert_proto.backoff import Backoff
from culvert_proto.contract import GATEWAY_DROPS
from culvert_proto.phrases import Phrase
from opentelemetry.trace import SpanKind

from culvert_service.database import DatabaseBusyError, DatabaseDownError
from culvert_service.gateways import mapped
from culvert_service.gateways.config import GatewayConfig
from culvert_service.gateways.crypto_hosts import HostDownError, HostedTables, Hosts
from culvert_service.gateways.dialled import Dialled
from culvert_service.gateways.encoding import Encoding
from culvert_service.gateways.entry import Count, Entry, EntryKey, Update, differences
from culvert_service.gateways.guard import Guard
from culvert_service.gateways.health import NOT_CONNECTED_YET, RECONNECTING, Drift, Report
from culvert_service.gateways.p4runtime import (
    Credentials,
    NotPrimaryError,
    P4RuntimeError,
    Session,
    UnreachableError,
    is_not_primary,
)
from culvert_service.gateways.program import Program
from culvert_service.gateways.running_time import running_time
from culvert_service.gateways.site import static_entries
from culvert_service.gateways.tables import DIGESTS, SaHits, Tables
from culvert_service.pki.own_certificates import OwnCertificates
from culvert_service.tasks import Pace
from culvert_service.tracing.span import span

_log = logging.getLogger(__name__)

# The tables with direct counters.
COUNTED = ("sad_in", "spd_in", "spd_out", "sad_out")
# The tables whose entries hold wrapped keys.
SAS = ("sad_in", "sad_out")
# The actions of their entries whose keys a crypto host has.
_AT_HOST = ("open_at", "seal_at")
# Short, because a person waits for the set-up while the gateway may be gone.
WRITE_SECONDS = 1.0
_TURN_SECONDS = 0.5
_CONNECT_SECONDS = 5.0
# Enough for 100,000 entries.
_OBSERVE_SECONDS = 15.0
# Updates in one request: its message must stay below gRPC's 4 MiB.
_PORTION = 1000
_COUNT_SECONDS = 10.0
_RECONCILE_SECONDS = 30.0
# Rest 10 × the last reconciliation's duration: with 10,000 tunnels it takes seconds, in which set-ups are slower.
_RESTS = 10
_RETRY_SECONDS = 0.5
_DATABASE_BACKOFF = Backoff(0.5, 5.0)
# A session that has lasted this long is opened again at once. Others wait, so that a switch that fails again costs little.
_STEADY_SECONDS = 2.0
# A gateway that connects itself comes back within this time, unless it is gone.
_DIALLED_SECONDS = 1.0
_PROBE_EVERY_SECONDS = 0.5
_PROBE_SECONDS = 1.0
_SHOW_DIGESTS_SECONDS = 5.0
# The fields of digests that hold addresses.
_ADDRESSES = ("src", "dst")


class GatewayEvents(Protocol):
    """The callbacks of a link for its gateway's tunnels."""

    async def reconcile(self, link: Link) -> None:
        """Bring the gateway to its desired state."""
        ...

    async def soft_limit(self, link: Link, sa_id: int) -> None:
        """The SA has reached its soft limit."""
        ...

    def record_roaming(self, link: Link, sa_id: int, peer_address: str, peer_port: int) -> None:
        """The gateway has authenticated a packet of the SA's peer from this endpoint."""
        ...


class Owner(Protocol):
    """The callbacks of a link for the lease of its gateway."""

    def report_state(self, link: Link) -> None:
        """The gateway went online or offline, or repaired drift."""
        ...

    def lost_to_election_id(self, link: Link, highest: int) -> None:
        """Another client is primary with the election id `highest`, which is not below this link's."""
        ...


def portions(updates: Sequence[Update]) -> list[Sequence[Update]]:
    """Split updates into requests of at most _PORTION."""
    return [updates[first : first + _PORTION] for first in range(0, len(updates), _PORTION)]


class HostLostError(CulvertError):
    """GATEWAY_REFUSED: a crypto host did not answer. Nothing was written; another attempt finds another host."""


class _LostError(Exception):
    """The session has ended; the message says why."""


class _TakenError(_LostError):
    """Another controller has the gateway."""


class Link:
    """A gateway's link. `online`: the gateway has answered and holds its desired state."""

    def __init__(
        self,
        config: GatewayConfig,
        epoch: int,
        program: Program,
        host_program: Program,
        own: OwnCertificates,
        dialled: Dialled,
        events: GatewayEvents,
        owner: Owner,
    ) -> None:
        """`epoch`: the epoch of the gateway's lease; it is the election id, at the gateway's crypto hosts too."""
        self.config = config
        self.epoch = epoch
        self.guard = Guard()
        self.online = False
        # `alive`: the switch answers, but may still lack entries. `answered_at`: its last answer, on the monotonic clock.
        self.alive = False
        self.answered_at: float | None = None
        self.reason: str = NOT_CONNECTED_YET
        # Tunnels, with their generation, whose SAs the gateway lacks until the reconciler's caller has restored them.
        self.lost: frozenset[tuple[uuid.UUID, int]] = frozenset()
        # As of `take_round_trip`.
        self._least_round_trip: float | None = None
        # The P4Runtime version of the switch, and that of its program.
        self.version: str | None = None
        self.software: str | None = None
        # The monotonic time since which this link wraps under its present KEK, and the number of SAs under older KEKs
        # when they were last counted.
        self.rekeyed_at = time.monotonic()
        self.sas_to_rekey: int | None = None
        self.hosts = Hosts(epoch, host_program, own, self)
        self._program = program
        self._encoding = Encoding.of(program.p4info)
        self._own = own
        self._dialled = dialled
        self._events = events
        self._owner = owner
        self._tables: Tables | None = None
        self._over: asyncio.Future[_LostError] | None = None
        self._dirty = asyncio.Event()
        # The site whose static entries were written last; `_moved`: it is not the present one.
        self._written = config.present
        self._moved = asyncio.Event()
        self._heard = 0.0
        self._reconciled = 0
        self._drifts = 0
        self._last_drift = Drift()
        # The SAs whose soft limit is to be told.
        self._soft_limits: set[int] = set()
        # Whether a crypto host came or went before the present reconciliation, and whether one has since.
        self._expects_drift = self._host_changed = False
        # Since when the link is online, on the monotonic clock; whether the next attempt follows at once.
        self._online_since = 0.0
        self._reconnects = False

    @property
    def name(self) -> str:
        return self.config.name

    async def run(self) -> None:
        """Connect, and reconnect after each failure, until cancelled."""
        self.hosts.take(self.config.hosts)
        try:
            await self._run()
        finally:
            await self.hosts.stop()

    async def _run(self) -> None:
        while True:
            try:
                await self._hold_session()
            except _LostError as lost:
                self._set_offline(lost)
            except Exception as error:
                # A fault in one link must not end the other links.
                _log.exception("gateway link failed", extra={"gateway": self.name})
                self._set_offline(_LostError(Phrase("the link failed: {error}", error=type(error).__name__)))
            finally:
                self.online = self.alive = False
            if self._reconnects:
                self._reconnects = False
            else:
                await asyncio.sleep(_RETRY_SECONDS)

    def report(self) -> Report:
        return Report(
            self.epoch,
            self.online,
            self.reason,
            self._reconciled,
            self._drifts,
            self._last_drift,
            self.software,
        )

    def take_reconciliation(self, drift: Drift) -> None:
        """Take the reconciler's result: the gateway holds its desired state, and `drift` was repaired. The first result
        after a connection, and after a crypto host came or went, counts as no drift.
        """
        self._reconciled += 1
        self.hosts.settle()
        expected = self._expects_drift or self._host_changed
        if not self.online:
            self._set_online()
        elif drift and not expected:
            self._drifts += 1
            self._last_drift = drift
            self._owner.report_state(self)

    def take_keys(self, config: GatewayConfig) -> None:
        """Wrap keys under this configuration's KEKs from now on."""
        if config.key_wrap.fingerprint != self.config.key_wrap.fingerprint:
            self.rekeyed_at = time.monotonic()
        self.config = replace(
            self.config,
            key_wrap=config.key_wrap,
            next_key_wrap=config.next_key_wrap,
            rekeying_since=config.rekeying_since,
        )

    def take_neighbours(self, config: GatewayConfig) -> None:
        """Use this configuration's MAC addresses of neighbours from now on."""
        self.config = replace(self.config, present=config.present)
        if config.present != self._written:
            self._moved.set()

    def take_hosts(self, config: GatewayConfig) -> None:
        """Use this configuration's crypto hosts from now on."""
        before, self.config = self.config.hosts, replace(self.config, hosts=config.hosts)
        self.hosts.take(config.hosts)
        if [*config.hosts] != [*before]:
            self.reconcile_soon()

    def host_changed(self) -> None:
        self._host_changed = True
        self.reconcile_soon()

    def place(self) -> int | None:
        """The crypto port for a new pair of SAs; None: the gateway's own engine. Raises CulvertError GATEWAY_REFUSED."""
        port = self.hosts.place()
        if port is None and not self.config.kind.has_engine:
            why = Phrase("none of its crypto hosts is in use")
            raise CulvertError(Reason.GATEWAY_REFUSED, gateway=self.name, why=why)
        return port

    def static_entries(self) -> list[Entry]:
        """The entries that depend on no tunnel."""
        return [*static_entries(self.config.present), *self.hosts.static_entries()]

    async def keks(self) -> list[bytes] | None:
        """Fingerprints of the KEKs that the gateway has, newest first; None when the gateway cannot report them.

        Raises CulvertError GATEWAY_DOWN.
        """
        async with self._begin_read(_COUNT_SECONDS) as tables:
            return await tables.keks()

    async def forget_keks(self, fingerprints: Sequence[bytes]) -> None:
        """Raises CulvertError GATEWAY_DOWN or GATEWAY_REFUSED."""
        try:
            async with running_time(WRITE_SECONDS):
                await self._require_tables().forget_keks(fingerprints)
        except (TimeoutError, UnreachableError):
            raise self._down() from None
        except P4RuntimeError as error:
            raise CulvertError(Reason.GATEWAY_REFUSED, gateway=self.name, why=str(error)) from None

    async def sas(self) -> list[Entry]:
        """The SAs of the gateway's own engine, with their wrapped keys. Raises CulvertError GATEWAY_DOWN."""
        async with self._begin_read(_OBSERVE_SECONDS) as tables:
            return [it for it in await self._heard_all(tables.whole(SAS)) if it.action not in _AT_HOST]

    async def sas_to_move(self) -> set[int]:
        """The ids of the SAs that a draining crypto host opens. Raises CulvertError GATEWAY_DOWN."""
        draining = {it.host.port for it in self.hosts.links() if it.host.draining}
        if not draining:
            return set()
        async with self._begin_read(_OBSERVE_SECONDS) as tables:
            opened = await self._heard_all(tables.whole(["crypto_in"]))
        return {dict(it.params)["sa_id"] for it in opened if dict(it.match)["port"] in draining}

    def reconcile_soon(self) -> None:
        """Start a reconciliation early, for a writer that could not finish."""
        self._dirty.set()

    @asynccontextmanager
    async def lock_for_writing(self) -> AsyncGenerator[Link]:
        """Hold the shared write lock. Raises CulvertError GATEWAY_DOWN when a reconciliation holds it for too long."""
        async with AsyncExitStack() as turn:
            try:
                async with running_time(_TURN_SECONDS):
                    await turn.enter_async_context(self.guard.share())
            except TimeoutError:
                raise self._down() from None
            yield self

    async def apply(self, batches: Sequence[Sequence[Update]]) -> None:
        """Write the batches in order. On failure undo all tried batches in reverse.

        Raises CulvertError GATEWAY_DOWN or GATEWAY_REFUSED, as HostLostError if a crypto host is the cause.
        """
        tried: list[Sequence[Update]] = []
        try:
            async with running_time(WRITE_SECONDS):
                for batch in batches:
                    tried.append(batch)
                    await self._write(batch)
        except TimeoutError:
            self._end(
                _LostError(Phrase("no answer to a write within {seconds} s", seconds=f"{WRITE_SECONDS:g}"))
            )
            raise self._down() from None
        except UnreachableError as error:
            self._end(_LostError(Phrase("a write failed: {why}", why=str(error))))
            raise self._down() from None
        except P4RuntimeError as error:
            if is_not_primary(error):
                # The stream tells it a moment later. The next owner deletes what an earlier batch has written.
                self._end(_TakenError(Phrase("another controller took over")))
                raise self._down() from None
            await self.undo(tried)
            why = str(error)
            _log.warning("gateway refused a write", extra={"gateway": self.name, "why": why})
            refusal = HostLostError if isinstance(error, HostDownError) else CulvertError
            raise refusal(Reason.GATEWAY_REFUSED, gateway=self.name, why=why) from None

    async def undo(self, batches: Sequence[Sequence[Update]]) -> None:
        """Undo batches in reverse order. The reconciler undoes what fails."""
        for batch in reversed(batches):
            backwards = [update.inverse() for update in reversed(batch)]
            try:
                async with running_time(WRITE_SECONDS):
                    await self._write([update for update in backwards if update], missing_ok=True)
            except (TimeoutError, P4RuntimeError, CulvertError):
                self.reconcile_soon()

    async def remove(self, batches: Sequence[Sequence[Update]]) -> bool:
        """Delete entries; missing ones are no error. False on failure: then a reconciliation follows soon."""
        try:
            async with self.lock_for_writing(), running_time(WRITE_SECONDS):
                for batch in batches:
                    await self._write(batch, missing_ok=True)
        except (TimeoutError, P4RuntimeError, CulvertError) as error:
            _log.warning(
                "deletion is left to the reconciler", extra={"gateway": self.name, "why": str(error)}
            )
            self.reconcile_soon()
            return False
        return True

    async def write_all(self, updates: Sequence[Update]) -> None:
        """Write for the reconciler, which holds the exclusive lock. Raises _LostError."""
        try:
            for portion in portions(updates):
                await self._write(portion, missing_ok=True)
        except P4RuntimeError as error:
            raise _LostError(Phrase("a reconciling write failed: {why}", why=str(error))) from None

    async def observe(
        self, keys: Collection[EntryKey] | None = None, seconds: float = _OBSERVE_SECONDS
    ) -> list[Entry]:
        """Read all entries, or the entries with these keys. Raises CulvertError GATEWAY_DOWN."""
        async with self._begin_read(seconds) as tables:
            if keys is None or len(keys) > _PORTION:
                found = await self._heard_all(tables.read_all())
            else:
                found = await self._heard_all(tables.under(list(keys)))
        # A key without match fields reads its whole table.
        return [item for item in found if keys is None or item.key in keys]

    async def hashes(self) -> dict[EntryKey, int]:
        """The hash of each entry of the gateway, by key. Raises CulvertError GATEWAY_DOWN."""
        found: dict[EntryKey, int] = {}
        async with self._begin_read(_OBSERVE_SECONDS) as tables:
            async for portion in tables.read_all():
                self._heard = time.monotonic()
                found |= {item.key: hash(item) for item in portion}
        return found

    async def read_stored(self, entries: Sequence[Entry]) -> list[Entry]:
        """The gateway's entries with the keys of `entries`. Raises CulvertError GATEWAY_DOWN."""
        return await self.observe({item.key for item in entries}, WRITE_SECONDS)

    async def read_hits(self, table: str) -> SaHits:
        """The counters of a table's entries, summed by SA. Raises CulvertError GATEWAY_DOWN."""
        async with self._begin_read(_COUNT_SECONDS) as tables:
            return await tables.read_hits(table)

    async def counters(self) -> dict[EntryKey, Count]:
        """The counters of each entry in COUNTED tables. Raises CulvertError GATEWAY_DOWN."""
        found: dict[EntryKey, Count] = {}
        async with self._begin_read(_OBSERVE_SECONDS) as tables:
            for name in COUNTED:
                found |= await tables.counters(name)
        return found

    def take_round_trip(self) -> float | None:
        """The least round-trip time of the probes since the last call, in seconds; None without a probe.

        The other probes also waited for this process or behind the switch's other work.
        """
        least, self._least_round_trip = self._least_round_trip, None
        return least

    async def drops(self) -> dict[str, int]:
        """Dropped packets by cause, without causes of 0 packets. Raises CulvertError GATEWAY_DOWN."""
        async with self._begin_read(_COUNT_SECONDS) as tables:
            counted = await tables.array("drops")
        return {cause: counted[index] for index, cause in GATEWAY_DROPS.items() if counted.get(index)}

    async def _heard_all(self, portions: AsyncIterator[Sequence[Entry]]) -> list[Entry]:
        found: list[Entry] = []
        async for portion in portions:
            self._heard = time.monotonic()
            found += portion
        return found

    @asynccontextmanager
    async def _begin_read(self, seconds: float) -> AsyncGenerator[Tables]:
        tables = self._require_tables()
        try:
            async with asyncio.timeout(seconds):
                yield tables
        except (TimeoutError, P4RuntimeError):
            raise self._down() from None

    async def _write(self, updates: Sequence[Update], *, missing_ok: bool = False) -> None:
        if updates:
            named = {"culvert__gateway": self.name, "culvert__updates": len(updates)}
            with span("P4Runtime/Write", SpanKind.CLIENT, **named):
                await self._require_tables().write(updates, missing_ok=missing_ok)

    def _require_tables(self) -> Tables:
        if self._tables is None:
            raise self._down()
        return self._tables

    def _down(self) -> CulvertError:
        return CulvertError(Reason.GATEWAY_DOWN, gateway=self.name)

    def _set_offline(self, why: _LostError) -> None:
        reason = str(why)
        if self.online:
            steady = time.monotonic() - self._online_since >= _STEADY_SECONDS
            self._reconnects = steady and not isinstance(why, _TakenError)
        stated = RECONNECTING if self._reconnects else reason
        changed = self.online or stated != self.reason
        self.online, self.alive, self.reason = False, False, stated
        if changed:
            _log.warning("gateway is offline", extra={"gateway": self.name, "reason": reason})
            self._owner.report_state(self)

    def _set_online(self) -> None:
        self.online, self.reason, self._online_since = True, "", time.monotonic()
        _log.info("gateway is online", extra={"gateway": self.name})
        self._owner.report_state(self)

    def _end(self, why: _LostError) -> None:
        """End the session from outside of its tasks. The link is offline at once."""
        if self._tables is not None and self._over is not None and not self._over.done():
            self._set_offline(why)
            self._over.set_result(why)

    async def _hold_session(self) -> None:
        address = self.config.p4runtime
        if address is None:
            address = await self._take_dialled()
        ids = [self._encoding.digest(name) for name in DIGESTS]
        session = Session(
            self.name,
            address,
            self.config.device_id,
            self.epoch,
            self._program,
            # Over a Unix socket: the agent port has ended TLS.
            None if self.config.p4runtime is None else Credentials.of(self._own),
            ids,
        )
        over = self._over = asyncio.get_running_loop().create_future()
        tables = HostedTables(session, self._encoding, self.hosts)
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._open(session)
            self._tables, self.version, self.software = tables, session.version, session.software
            tasks = [asyncio.create_task(self._take_digests(tables, name)) for name in DIGESTS]
            tasks += [
                asyncio.create_task(self._serve(tables)),
                asyncio.create_task(self._probe(tables)),
                asyncio.create_task(self._follow_neighbours()),
                asyncio.create_task(self._watch(session)),
            ]
            await asyncio.wait([over, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if over.done():
                raise over.result()
            for task in tasks:
                if task.done():
                    task.result()
        except _LostError as lost:
            # Before the tasks have ended, because calls look at the state in between.
            self._set_offline(lost)
            raise
        finally:
            self._tables = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await session.close()
            if self.config.p4runtime is None:
                self._dialled.release(self.name, address)

    async def _take_dialled(self) -> str:
        """Wait for the gateway's own connection. Returns its address."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_DIALLED_SECONDS):
                    return await self._dialled.take(self.name)
            if (why := self._dialled.why(self.name)) is not None:
                self._set_offline(_LostError(why))

    async def _open(self, session: Session) -> None:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await session.open()
        except TimeoutError:
            raise _LostError(
                Phrase("no P4Runtime session within {seconds} s", seconds=f"{_CONNECT_SECONDS:g}")
            ) from None
        except NotPrimaryError as error:
            self._report_lost(error)
            raise _TakenError(Phrase("another controller is in charge")) from None
        except P4RuntimeError as error:
            raise _LostError(str(error)) from None

    async def _watch(self, session: Session) -> None:
        why = await session.ended
        if isinstance(why, NotPrimaryError):
            self._end(_TakenError(Phrase("another controller took over")))
            self._report_lost(why)
        else:
            self._end(_LostError(Phrase("the connection broke")))

    def _report_lost(self, bid: NotPrimaryError) -> None:
        if bid.highest >= self.epoch:
            self._owner.lost_to_election_id(self, bid.highest)

    async def _serve(self, tables: Tables) -> None:
        try:
            await tables.subscribe()
        except P4RuntimeError as error:
            raise _LostError(Phrase("it sends no digests: {why}", why=str(error))) from None
        pace, away = Pace(_RESTS), 0
        while True:
            self._dirty.clear()
            self._expects_drift, self._host_changed = self._host_changed, False
            began = time.monotonic()
            try:
                await self._events.reconcile(self)
                await self._tell_soft_limits()
            except (DatabaseDownError, DatabaseBusyError):
                # No fault of the gateway, which keeps its session.
                away += 1
                pause = _DATABASE_BACKOFF.spread(away, random.random())  # noqa: S311 (spreads load, hides nothing)
                await asyncio.sleep(pause)
                continue
            except CulvertError as error:
                raise _LostError(error.message) from None
            away = 0
            with suppress(TimeoutError):
                rest = max(_RECONCILE_SECONDS, pace.rest_after(time.monotonic() - began))
                # `wait_for` loses a cancellation that comes together with the event (fixed in Python 3.12).
                async with asyncio.timeout(rest):
                    await self._dirty.wait()

    async def _follow_neighbours(self) -> None:
        """Write changed MAC addresses of neighbours at once: the next reconciliation may be half a minute away."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            changes = differences(static_entries(self._written), static_entries(self.config.present))
            self._written = self.config.present
            try:
                if self.online:
                    async with self.lock_for_writing():
                        await self.apply(changes)
                    _log.info("neighbours have moved", extra={"gateway": self.name, "writes": len(changes)})
                    continue
            except CulvertError as error:
                _log.warning(
                    "moved neighbours are left to the reconciler",
                    extra={"gateway": self.name, "why": error.message},
                )
            self.reconcile_soon()

    async def _probe(self, tables: Tables) -> None:
        while True:
            began = time.monotonic()
            try:
                async with running_time(_PROBE_SECONDS):
                    async for _ in tables.whole(["port_role"]):
                        pass
                    await self.hosts.look(tables)
            except TimeoutError:
                # The answer may be queued behind a long read; other answers since `began` prove that the switch lives.
                if self._heard >= began:
                    continue
                raise _LostError(
                    Phrase("no answer within {seconds} s", seconds=f"{_PROBE_SECONDS:g}")
                ) from None
            except P4RuntimeError:
                raise _LostError(
                    Phrase("no answer within {seconds} s", seconds=f"{_PROBE_SECONDS:g}")
                ) from None
            self.alive, self.answered_at = True, time.monotonic()
            self._least_round_trip = min(self._least_round_trip or math.inf, self.answered_at - began)
            await asyncio.sleep(_PROBE_EVERY_SECONDS)

    async def _tell_soft_limits(self) -> None:
        """Those not told because the database was away are told after the next reconciliation."""
        while self._soft_limits:
            sa_id = self._soft_limits.pop()
            try:
                await self._events.soft_limit(self, sa_id)
            except CulvertError:
                self._soft_limits.add(sa_id)
                raise

    async def _take_digests(self, tables: Tables, name: str) -> None:
        """Pass soft limits and moved peers on. Anybody on the internet can provoke the other digests: count them, and log
        the newest every _SHOW_DIGESTS_SECONDS.
        """
        seen, shown = 0, -_SHOW_DIGESTS_SECONDS
        async for messages in tables.digests(name):
            seen += len(messages)
            for values in messages:
                if name == "soft_limit_t":
                    self._soft_limits.add(values["sa_id"])
                    with suppress(DatabaseDownError, DatabaseBusyError):
                        await self._tell_soft_limits()
                elif name == "moved_t":
                    self._events.record_roaming(
                        self, values["sa_id"], mapped.text(values["peer"]), values["port"]
                    )
                elif time.monotonic() - shown >= _SHOW_DIGESTS_SECONDS:
                    shown = time.monotonic()
                    named = {key: mapped.text(it) if key in _ADDRESSES else it for key, it in values.items()}
                    _log.info("digest", extra={"gateway": self.name, "digest": name, "count": seen, **named})
