"""Zones as administrators describe them. Postgres notifies dns-updater of each change."""

from __future__ import annotations

from collections.abc import Sequence

from culvert_db import Database, DnsState, DnsZone
from culvert_proto import CulvertError, Reason, dns_name
from culvert_proto.phrases import Phrase
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import begin
from culvert_service.dns import repository
from culvert_service.dns.managed import ManagedZones
from culvert_service.dns.schemas import DnsRecordOut, ManagedZoneOut, ZoneChange, ZoneIn, ZoneOut
from culvert_service.rest.field import FieldError, to_field_error
from culvert_service.rest.page import Page
from culvert_service.rest.version import MayMatch


class Dns:
    def __init__(self, database: Database, managed: ManagedZones) -> None:
        self._database = database
        self._managed = managed

    async def records(self, zone: str | None, state: DnsState | None, page: Page) -> list[DnsRecordOut]:
        async with self._database() as session:
            found = await repository.records(session, zone, state, page.by(str, str, str))
        shown = page.cut(found, lambda record: (record.name, record.zone, record.type))
        return [DnsRecordOut.model_validate(record) for record in shown]

    async def create(self, by: Actor, asked: ZoneIn) -> tuple[ZoneOut, int]:
        """Returns the zone and its version. A retiring zone of the same name, origin, view and instance stays instead.

        Raises CulvertError NOT_FOUND or ALREADY_EXISTS.
        """
        try:
            async with begin(self._database, by) as transaction:
                zone = await repository.lock(transaction.session, asked.name)
                if zone is not None and zone.retiring and _is_same(zone, asked):
                    zone.retiring = False
                else:
                    zone = DnsZone(
                        name=asked.name, origin=asked.origin, view=asked.view, instance=asked.instance
                    )
                    transaction.session.add(zone)
                await _describe(transaction.session, zone, asked)
                told: dict[str, Detail] = {
                    "origin": asked.origin,
                    "view": asked.view,
                    "instance": asked.instance,
                }
                transaction.audit(Line("zone.create", _object(asked.name), told | _describe_change(asked)))
        except IntegrityError as error:
            named = Phrase("The zone {name}", name=asked.name)
            view = Phrase("That view of {name}", name=asked.origin)
            unique = {"uq_dns_zones_name": ("/name", named), "uq_dns_zones_origin_view": ("/origin", view)}
            raise to_field_error(error, unique, named) from None
        return await self.get(asked.name)

    async def zones(self, page: Page) -> list[ZoneOut]:
        async with self._database() as session:
            found = await repository.zones(session, page.by(str))
        return [_out(row) for row in page.cut(found, lambda row: (row.zone.name,))]

    async def all_zones(self) -> list[ZoneOut]:
        """All zones, for a live view."""
        async with self._database() as session:
            return [_out(row) for row in await repository.all_zones(session)]

    async def get(self, name: str) -> tuple[ZoneOut, int]:
        """The zone and its version. Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            row = await repository.zone(session, name)
        if row is None:
            raise _unknown(name)
        return _out(row), row.zone.version

    async def change(self, by: Actor, name: str, asked: ZoneChange, seen: MayMatch) -> tuple[ZoneOut, int]:
        """Returns the zone and its version. Raises CulvertError NOT_FOUND, VERSION_NEEDED or VERSION_STALE."""
        async with begin(self._database, by) as transaction:
            await _describe(transaction.session, await _lock(transaction.session, name, seen), asked)
            transaction.audit(Line("zone.replace", _object(name), _describe_change(asked)))
        return await self.get(name)

    async def delete(self, by: Actor, name: str, seen: MayMatch, *, keep_records: bool) -> None:
        """Retire the zone: dns-updater withdraws its records and then deletes it. With `keep_records`, delete it at once.

        Raises CulvertError NOT_FOUND or VERSION_STALE.
        """
        async with begin(self._database, by) as transaction:
            zone = await _lock(transaction.session, name, seen)
            if keep_records:
                await repository.forget(transaction.session, zone)
            else:
                zone.retiring = True
            told: dict[str, Detail] = {"records": "kept" if keep_records else "withdrawn"}
            transaction.audit(Line("zone.delete", _object(name), told))

    async def check(self, by: Actor, name: str) -> None:
        """Make dns-updater check the zones now. Raises CulvertError NOT_FOUND."""
        async with begin(self._database, by) as transaction:
            await _lock(transaction.session, name, MayMatch())
            await repository.hurry(transaction.session)
            transaction.audit(Line("zone.check", _object(name)))

    async def managed_zones(self, page: Page) -> list[ManagedZoneOut]:
        """By the name that people read. The zones of the settings are no rows, so the page is cut here."""
        cut = page.by(str, str)
        async with self._database() as session:
            shown = await self._managed.read_denial_pages(session)
        places = sorted((dns_name.make_readable(name), name) for name in shown)
        left = [place for place in places if cut.after is None or place > cut.after]
        found = page.cut(left[: cut.count], lambda place: place)
        return [ManagedZoneOut(name=name, denial_page=shown[name]) for _, name in found]

    async def choose_denial_page(self, by: Actor, name: str, *, shown: bool) -> ManagedZoneOut:
        """Raises CulvertError NOT_FOUND."""
        async with begin(self._database, by) as transaction:
            if name not in await self._managed.read_denial_pages(transaction.session):
                raise _unknown(name)
            await repository.choose_denial_page(transaction.session, name, shown=shown)
            told: dict[str, Detail] = {"shown": "yes" if shown else "no"}
            transaction.audit(Line("zone.denial-page", _object(name), told))
        return ManagedZoneOut(name=name, denial_page=shown)


async def _lock(session: AsyncSession, name: str, seen: MayMatch) -> DnsZone:
    zone = await repository.lock(session, name)
    if zone is None:
        raise _unknown(name)
    seen.check(Phrase("The zone {name}", name=name), zone.version)
    return zone


def _is_same(zone: DnsZone, asked: ZoneIn) -> bool:
    return (zone.origin, zone.view, zone.instance) == (asked.origin, asked.view, asked.instance)


async def _describe(session: AsyncSession, zone: DnsZone, asked: ZoneChange) -> None:
    zone.server, zone.port, zone.key, zone.ttl = asked.server, asked.port, asked.key, asked.ttl
    zone.all_resources = asked.resources is None
    await session.flush()
    await repository.choose(session, zone.id, await _numbers(session, asked.resources or ()))


async def _numbers(session: AsyncSession, names: Sequence[str]) -> list[int]:
    found = await repository.resources_named(session, names)
    for at, name in enumerate(names):
        if name not in found:
            what = Phrase("The resource {name}", name=name)
            raise FieldError(f"/resources/{at}", Reason.NOT_FOUND, what=what)
    return sorted(found.values())


def _object(name: str) -> str:
    return f"zone/{name}"


def _describe_change(asked: ZoneChange) -> dict[str, Detail]:
    return {
        "server": asked.server,
        "port": asked.port,
        "key": asked.key,
        "ttl": asked.ttl,
        "resources": "all" if asked.resources is None else " ".join(asked.resources),
    }


def _unknown(name: str) -> CulvertError:
    return CulvertError(Reason.NOT_FOUND, what=Phrase("The zone {name}", name=name))


def _out(row: repository.ZoneRow) -> ZoneOut:
    zone, status = row.zone, row.status
    behind = status.behind_since if status else zone.created_at
    return ZoneOut(
        name=zone.name,
        origin=zone.origin,
        view=zone.view,
        instance=zone.instance,
        server=zone.server,
        port=zone.port,
        key=zone.key,
        ttl=zone.ttl,
        resources=None if zone.all_resources else row.resources,
        retiring=zone.retiring,
        state=(status.state if status else DnsState.PENDING).value,
        reason=status.reason if status else None,
        message=status.message if status else None,
        remedy=status.remedy if status else None,
        serial=status.serial if status else None,
        checked_at=status.checked_at if status else None,
        lag_seconds=max(0.0, (row.now - behind).total_seconds()) if behind else 0.0,
        failures=status.failures if status else 0,
        keeper=row.keeper,
        records=row.records,
    )
