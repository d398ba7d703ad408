"""All SQL of dns-updater: the desired records, the zones' leases, the records' states, and notifications of changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from asyncpg import InterfaceError, InternalClientError, PostgresError
from culvert_db import (
    DNS_ZONES_CHANNEL,
    RESOURCES_CHANNEL,
    DnsLease,
    DnsRecord,
    DnsZone,
    DnsZoneResource,
    Resource,
    UnfitDatabaseError,
    UntrustedDatabaseError,
    bind_database,
    check,
    create_engine,
    why_away,
)
from culvert_db.published import Address, hosts
from culvert_db.text import by_code_point
from culvert_proto import CulvertError
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from culvert_dns_updater.desired import Intent, ZoneProfile
from culvert_dns_updater.records import Ownership
from culvert_dns_updater.states import State, States

# The zone of rows for names that no zone publishes.
_NO_ZONE = ""

# Only by the database's clock, because updaters' clocks may differ.
_CLAIM = text("""
INSERT INTO dns_leases AS lease (zone_id, holder, epoch, ends_at)
SELECT id, :holder, 1, now() + make_interval(secs => :seconds) FROM dns_zones ORDER BY id
ON CONFLICT (zone_id) DO UPDATE SET holder = excluded.holder, ends_at = excluded.ends_at,
    epoch = lease.epoch + CASE WHEN lease.holder = excluded.holder THEN 0 ELSE 1 END
WHERE lease.holder = excluded.holder OR lease.ends_at <= now()
RETURNING zone_id, epoch
""")

_FORGET_RECORDS = text("""
DELETE FROM dns_records WHERE zone = :zone
AND (name, type) NOT IN (SELECT * FROM unnest(CAST(:names AS text[]), CAST(:types AS text[])))
""")

_RECORDS = text("""
INSERT INTO dns_records AS record (zone, name, type, state, reason, message, remedy, wanted, found, attempts)
SELECT :zone, n, t, s, r, m, remedy, CAST(w AS jsonb), CAST(f AS jsonb),
    CASE WHEN s = 'live' OR NOT :finished THEN 0 ELSE 1 END
FROM unnest(CAST(:names AS text[]), CAST(:types AS text[]), CAST(:states AS text[]), CAST(:reasons AS text[]),
            CAST(:messages AS text[]), CAST(:remedies AS text[]), CAST(:wanted AS text[]),
            CAST(:found AS text[])) AS new (n, t, s, r, m, remedy, w, f)
ON CONFLICT (zone, name, type) DO UPDATE SET state = excluded.state, reason = excluded.reason,
    message = excluded.message, remedy = excluded.remedy, wanted = excluded.wanted, found = excluded.found,
    updated_at = now(),
    attempts = CASE WHEN excluded.state = 'live' THEN 0 WHEN :finished THEN record.attempts + 1 ELSE record.attempts END
WHERE record.state <> 'live' OR excluded.state <> 'live'
""")

_STATUS = text("""
INSERT INTO dns_zone_status AS status
    (zone_id, state, reason, message, remedy, serial, checked_at, behind_since, failures)
VALUES (:zone_id, :state, :reason, :message, :remedy, :serial, CASE WHEN :checked THEN now() END,
    CASE WHEN :behind THEN now() - make_interval(secs => :told_ago) END, :failures)
ON CONFLICT (zone_id) DO UPDATE SET state = excluded.state, reason = excluded.reason, message = excluded.message,
    remedy = excluded.remedy, serial = coalesce(excluded.serial, status.serial), failures = excluded.failures,
    checked_at = coalesce(excluded.checked_at, status.checked_at),
    behind_since = CASE WHEN :behind THEN coalesce(status.behind_since, excluded.behind_since) END
""")


class StoreError(Exception):
    """The database does not answer, or has no tables yet. The text names the kind of fault and no parameter."""


class LeaseLostError(Exception):
    """Another updater has the zone's lease now; nothing was written."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a zone. `until`: on our monotonic clock, not later than the end in the database."""

    zone_id: int
    epoch: int
    until: float

    def is_held(self) -> bool:
        return time.monotonic() < self.until


@dataclass(frozen=True, slots=True)
class ZoneReport:
    """The state of a zone. `behind`: it differs from the resources, whose change was notified `told_ago` seconds ago;
    `serial`: the last transfer's; `finished`: the pass has ended.
    """

    state: State
    error: CulvertError | None
    serial: int | None
    behind: bool
    told_ago: float
    failures: int
    finished: bool = True


class _DriverConnection(Protocol):
    """The methods used of asyncpg.Connection, which has no type stubs."""

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...


class Store:
    def __init__(self, database_url: str, holder: str, lease_seconds: float) -> None:
        self._engine = create_engine(database_url, pool_size=4)
        self._unchecked: AsyncEngine | None = create_engine(database_url, pool_size=2, pooled=True)
        self._database = bind_database(self._engine)
        self._holder = holder
        self._lease_seconds = lease_seconds

    async def close(self) -> None:
        await self._engine.dispose()
        if self._unchecked is not None:
            await self._unchecked.dispose()

    async def _check(self) -> None:
        if self._unchecked is not None:
            await check(self._unchecked)
            await self._unchecked.dispose()
            self._unchecked = None

    async def claim(self) -> dict[int, Lease]:
        """Renew own leases and claim free zones, for another lease's time. Raises StoreError."""
        until = time.monotonic() + self._lease_seconds
        async with _faults():
            await self._check()
        async with _faults(), self._database.begin() as session:
            found = await session.execute(_CLAIM, {"holder": self._holder, "seconds": self._lease_seconds})
            return {zone_id: Lease(zone_id, epoch, until) for zone_id, epoch in found}

    async def release(self) -> None:
        """End our leases, so that another updater can take over at once. Raises StoreError."""
        async with _faults(), self._database.begin() as session:
            ours = update(DnsLease).where(DnsLease.holder == self._holder)
            await session.execute(ours.values(ends_at=func.now()))

    async def intent(self) -> Intent:
        """Raises StoreError."""
        async with _faults(), self._database.begin() as session:
            await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            resources = await session.execute(select(Resource.id, Resource.fqdn, Resource.targets))
            rows = [(number, fqdn, hosts(targets)) for number, fqdn, targets in resources]
            names = {number: fqdn for number, fqdn, _ in rows}
            only: defaultdict[int, set[str]] = defaultdict(set)
            for chosen in await session.scalars(select(DnsZoneResource)):
                only[chosen.zone_id].add(names[chosen.resource_id])
            zones = [
                _profile(zone, None if zone.all_resources else frozenset(only[zone.id]))
                for zone in await session.scalars(select(DnsZone).order_by(by_code_point(DnsZone.name)))
            ]
        return Intent(tuple(zones), _read_published(rows))

    async def list_known(self, zone: str) -> list[tuple[str, str]]:
        """(name, type) of each record with a stored state. Raises StoreError."""
        async with _faults(), self._database() as session:
            rows = await session.execute(select(DnsRecord.name, DnsRecord.type).where(DnsRecord.zone == zone))
            return [(name, rtype) for name, rtype in rows]

    async def record(self, zone: str, lease: Lease, states: States, report: ZoneReport) -> None:
        """Replace the zone's stored states by `states` and `report`. Raises StoreError, LeaseLostError."""
        async with _faults(), self._database.begin() as session:
            await self._still_held(session, lease)
            await _write_records(session, zone, states, report.finished)
            values = {
                "zone_id": lease.zone_id,
                "state": report.state.value,
                "serial": report.serial,
                "checked": report.serial is not None,
                "behind": report.behind,
                "told_ago": report.told_ago,
                "failures": report.failures,
            }
            await session.execute(_STATUS, values | _words(report.error))

    async def record_unplaced(self, states: States) -> None:
        """Store the states of names that no zone publishes. Raises StoreError."""
        async with _faults(), self._database.begin() as session:
            await _write_records(session, _NO_ZONE, states, finished=True)

    async def retire(self, zone: str, lease: Lease) -> None:
        """Delete a zone without owned records. Raises StoreError, LeaseLostError."""
        async with _faults(), self._database.begin() as session:
            await self._still_held(session, lease)
            await session.execute(delete(DnsRecord).where(DnsRecord.zone == zone))
            await session.execute(delete(DnsZone).where(DnsZone.id == lease.zone_id, DnsZone.retiring))

    async def _still_held(self, session: AsyncSession, lease: Lease) -> None:
        # The lock makes another updater's claim wait for our commit.
        ours = (DnsLease.zone_id == lease.zone_id, DnsLease.holder == self._holder)
        query = select(DnsLease.epoch).where(*ours, DnsLease.epoch == lease.epoch).with_for_update(read=True)
        if await session.scalar(query) is None:
            raise LeaseLostError

    @contextlib.asynccontextmanager
    async def changes(
        self, resources: Callable[[], None], zones: Callable[[], None]
    ) -> AsyncGenerator[asyncio.Event]:
        """While open, `resources` and `zones` are called after each change. The event is set when the connection is lost.

        Raises StoreError.
        """
        lost = asyncio.Event()
        async with _faults(), self._engine.connect() as connection:
            driver = cast(_DriverConnection, (await connection.get_raw_connection()).driver_connection)
            try:
                driver.add_termination_listener(lambda *_: lost.set())
                await driver.add_listener(RESOURCES_CHANNEL, lambda *_: resources())
                await driver.add_listener(DNS_ZONES_CHANNEL, lambda *_: zones())
                yield lost
            finally:
                # Do not return the connection, which has our listener, to the pool.
                await connection.invalidate()


def _read_published(rows: Sequence[tuple[int, str, list[Address]]]) -> tuple[tuple[str, Address], ...]:
    # Others publish the names below a wildcard.
    exact = [(fqdn, addresses) for _, fqdn, addresses in rows if not fqdn.startswith("*.")]
    return tuple((fqdn, address) for fqdn, addresses in exact for address in addresses)


def _profile(zone: DnsZone, only: frozenset[str] | None) -> ZoneProfile:
    return ZoneProfile(
        id=zone.id,
        name=zone.name,
        origin=zone.origin,
        server=zone.server,
        port=zone.port,
        key=zone.key,
        ownership=Ownership(zone.instance, zone.ttl),
        only=only,
        retiring=zone.retiring,
    )


async def _write_records(session: AsyncSession, zone: str, states: States, finished: bool) -> None:
    # All writers use the same order, to avoid deadlocks.
    rows = sorted(states.items(), key=lambda item: item[0])
    keys: dict[str, object] = {
        "zone": zone,
        "names": [name for (name, _), _ in rows],
        "types": [rtype for (_, rtype), _ in rows],
    }
    await session.execute(_FORGET_RECORDS, keys)
    words = [_words(state.error) for _, state in rows]
    values: dict[str, object] = {
        "states": [state.state.value for _, state in rows],
        "reasons": [word["reason"] for word in words],
        "messages": [word["message"] for word in words],
        "remedies": [word["remedy"] for word in words],
        "wanted": [None if it.state is State.LIVE else json.dumps(it.wanted) for _, it in rows],
        "found": [None if it.found is None else json.dumps(it.found) for _, it in rows],
        "finished": finished,
    }
    await session.execute(_RECORDS, keys | values)


def _words(error: CulvertError | None) -> dict[str, str | None]:
    if error is None:
        return {"reason": None, "message": None, "remedy": None}
    return {"reason": error.reason.name, "message": error.message, "remedy": error.remedy}


@contextlib.asynccontextmanager
async def _faults() -> AsyncGenerator[None]:
    try:
        yield
    except (SQLAlchemyError, InterfaceError, InternalClientError, PostgresError) as error:
        # Also the driver's own errors, for a dead connection from the pool or a server that is shutting down.
        cause = cast(BaseException | None, getattr(error, "orig", None)) or error
        why = why_away(error) or type(cause.__cause__ or cause).__name__
        raise StoreError(f"the database refused: {why}") from error
    except UnfitDatabaseError as error:
        raise StoreError(f"the database cannot be used: {error}") from error
    except UntrustedDatabaseError as error:
        raise StoreError(str(error)) from error
    except (OSError, TimeoutError) as error:
        raise StoreError(
            f"the database cannot be reached: {error.strerror or type(error).__name__}"
        ) from error
