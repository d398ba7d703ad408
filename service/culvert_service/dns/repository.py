"""SQL about zones and published names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from culvert_db import (
    DNS_ZONES_CHANNEL,
    DenialPage,
    DnsLease,
    DnsRecord,
    DnsState,
    DnsZone,
    DnsZoneResource,
    DnsZoneStatus,
    Resource,
    notify,
)
from culvert_db.text import by_code_point
from sqlalchemy import Select, delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.rest.page import Cut

_ZONES = (
    select(DnsZone, DnsZoneStatus, DnsLease.holder, func.now())
    .outerjoin(DnsZoneStatus, DnsZoneStatus.zone_id == DnsZone.id)
    .outerjoin(DnsLease, (DnsLease.zone_id == DnsZone.id) & (DnsLease.ends_at > func.now()))
)


@dataclass(frozen=True, slots=True)
class ZoneRow:
    zone: DnsZone
    status: DnsZoneStatus | None
    keeper: str | None
    resources: list[str]
    records: dict[DnsState, int]
    now: datetime


async def records(
    session: AsyncSession, zone: str | None, state: DnsState | None, cut: Cut
) -> Sequence[DnsRecord]:
    query = cut.of(select(DnsRecord), DnsRecord.name, DnsRecord.zone, DnsRecord.type)
    if zone is not None:
        query = query.where(DnsRecord.zone == zone)
    if state is not None:
        query = query.where(DnsRecord.state == state)
    return (await session.scalars(query)).all()


async def zone(session: AsyncSession, name: str) -> ZoneRow | None:
    return next(iter(await _rows(session, _ZONES.where(DnsZone.name == name))), None)


async def zones(session: AsyncSession, cut: Cut) -> list[ZoneRow]:
    return await _rows(session, cut.of(_ZONES, DnsZone.name))


async def all_zones(session: AsyncSession) -> list[ZoneRow]:
    return await _rows(session, _ZONES)


async def lock(session: AsyncSession, name: str) -> DnsZone | None:
    return await session.scalar(select(DnsZone).where(DnsZone.name == name).with_for_update())


async def choose(session: AsyncSession, zone_id: int, resources: Sequence[int]) -> None:
    """Set the resources that a zone publishes, in place of the former ones."""
    await session.execute(delete(DnsZoneResource).where(DnsZoneResource.zone_id == zone_id))
    session.add_all(DnsZoneResource(zone_id=zone_id, resource_id=number) for number in resources)


async def resources_named(session: AsyncSession, names: Sequence[str]) -> dict[str, int]:
    found = await session.execute(select(Resource.name, Resource.id).where(Resource.name.in_(names)))
    return {row.name: row.id for row in found}


async def forget(session: AsyncSession, zone: DnsZone) -> None:
    await session.execute(delete(DnsRecord).where(DnsRecord.zone == zone.name))
    await session.delete(zone)


async def hurry(session: AsyncSession) -> None:
    """Make dns-updater check all zones now, without waiting for their back-off."""
    await notify(session, DNS_ZONES_CHANNEL)


async def _rows(session: AsyncSession, query: Select[DnsZone, DnsZoneStatus, str, datetime]) -> list[ZoneRow]:
    rows = (await session.execute(query)).all()
    chosen: dict[int, list[str]] = {}
    names = (
        select(DnsZoneResource.zone_id, Resource.name).join(Resource).order_by(by_code_point(Resource.name))
    )
    for zone_id, resource in await session.execute(names):
        chosen.setdefault(zone_id, []).append(resource)
    counts: dict[str, dict[DnsState, int]] = {}
    counting = select(DnsRecord.zone, DnsRecord.state, func.count()).group_by(DnsRecord.zone, DnsRecord.state)
    for zone, state, count in await session.execute(counting):
        counts.setdefault(zone, {})[state] = count
    return [
        ZoneRow(zone, status, keeper, chosen.get(zone.id, []), counts.get(zone.name, {}), now)
        for zone, status, keeper, now in rows
    ]


async def origins(session: AsyncSession) -> Sequence[str]:
    """The origins of the zones that Culvert writes."""
    kept = select(DnsZone.origin).where(~DnsZone.retiring).group_by(DnsZone.origin)
    return (await session.scalars(kept.order_by(by_code_point(DnsZone.origin)))).all()


async def denial_pages(session: AsyncSession) -> dict[str, bool]:
    """The origins for which an administrator has chosen, and whether their denied names show a page."""
    return {it.origin: it.shown for it in await session.scalars(select(DenialPage))}


async def choose_denial_page(session: AsyncSession, origin: str, *, shown: bool) -> None:
    await session.merge(DenialPage(origin=origin, shown=shown))
    await notify(session, DNS_ZONES_CHANNEL)
