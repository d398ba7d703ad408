"""SQL about leases of gateways and how they fare. Ends are by the database's clock: controllers' clocks may differ."""

from __future__ import annotations

from dataclasses import dataclass

from culvert_db import GATEWAYS_CHANNEL, Gateway, GatewayHealth, GatewayLease
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.controllers.identity import ControllerId
from culvert_service.gateways.health import Report
from culvert_service.rest.page import Cut

_CLAIM = text("""
INSERT INTO gateway_leases AS lease (gateway_id, holder, holder_name, epoch, ends_at)
SELECT id, :holder, :name, 1, now() + make_interval(secs => :seconds) FROM gateways ORDER BY id
ON CONFLICT (gateway_id) DO UPDATE SET holder = excluded.holder, holder_name = excluded.holder_name,
    ends_at = excluded.ends_at,
    epoch = lease.epoch + CASE WHEN lease.holder = excluded.holder THEN 0 ELSE 1 END
WHERE lease.holder = excluded.holder OR lease.ends_at <= now()
RETURNING gateway_id, epoch
""")
_RAISE = text("""
UPDATE gateway_leases SET epoch = :highest + 1
WHERE gateway_id = :gateway AND holder = :holder AND epoch <= :highest
""")
_RELEASE = text("UPDATE gateway_leases SET ends_at = now() WHERE holder = :holder AND ends_at > now()")
_TELL = select(func.pg_notify(GATEWAYS_CHANNEL, ""))
# Only a lease's present epoch may speak; the counts go on from holder to holder.
_RECORD = text("""
INSERT INTO gateway_health AS health
    (gateway_id, epoch, online, reason, since, reconciled_at, drifts, drifted_at, missing, "foreign", changed)
SELECT :gateway, :epoch, :online, :reason, now(), CASE WHEN :reconciled THEN now() END,
    CAST(:drifts AS bigint), CASE WHEN CAST(:drifts AS bigint) > 0 THEN now() END, :missing, :foreign, :changed
FROM gateway_leases WHERE gateway_id = :gateway AND epoch = :epoch
ON CONFLICT (gateway_id) DO UPDATE SET epoch = excluded.epoch, online = excluded.online, reason = excluded.reason,
    since = CASE WHEN health.online = excluded.online THEN health.since ELSE now() END,
    reconciled_at = coalesce(excluded.reconciled_at, health.reconciled_at),
    drifts = health.drifts + excluded.drifts, drifted_at = coalesce(excluded.drifted_at, health.drifted_at),
    missing = CASE WHEN excluded.drifts > 0 THEN excluded.missing ELSE health.missing END,
    "foreign" = CASE WHEN excluded.drifts > 0 THEN excluded."foreign" ELSE health."foreign" END,
    changed = CASE WHEN excluded.drifts > 0 THEN excluded.changed ELSE health.changed END
""")


@dataclass(frozen=True, slots=True)
class Seen:
    """A gateway as all controllers see it. Without an owner it is offline, whatever its last one said of it.

    `health` is what any owner has last recorded.
    """

    gateway: Gateway
    owner: str
    holder: str
    epoch: int
    online: bool
    reason: str
    health: GatewayHealth | None


async def claim(session: AsyncSession, me: ControllerId, seconds: float) -> dict[int, int]:
    """Every gateway that is ours or free, for another `seconds`: its id and epoch."""
    asked = {"holder": me.holder, "name": me.name, "seconds": seconds}
    return {row.gateway_id: row.epoch for row in await session.execute(_CLAIM, asked)}


async def raise_epoch(session: AsyncSession, gateway_id: int, holder: str, highest: int) -> None:
    """Beyond what the gateway has seen, if the lease is still ours."""
    await session.execute(_RAISE, {"gateway": gateway_id, "holder": holder, "highest": highest})


async def release(session: AsyncSession, holder: str) -> None:
    await session.execute(_RELEASE, {"holder": holder})
    await session.execute(_TELL)


async def tell(session: AsyncSession) -> None:
    """Every controller is to look, after the commit."""
    await session.execute(_TELL)


async def record(session: AsyncSession, gateway_id: int, report: Report, before: Report | None) -> None:
    """What is new since `before`; others are told when the gateway went online or offline."""
    if before is not None and before.epoch != report.epoch:
        before = None
    values = {
        "gateway": gateway_id,
        "epoch": report.epoch,
        "online": report.online,
        "reason": report.reason,
        "reconciled": report.reconciled != (before.reconciled if before else 0),
        "drifts": report.drifts - (before.drifts if before else 0),
        "missing": report.last.missing,
        "foreign": report.last.foreign,
        "changed": report.last.changed,
    }
    await session.execute(_RECORD, values)
    if before is None or before.online != report.online:
        await session.execute(_TELL)


async def seen(session: AsyncSession, name: str | None = None, cut: Cut | None = None) -> list[Seen]:
    """All gateways, the one of that name, or some of them."""
    query = (
        select(Gateway, GatewayLease, GatewayHealth, GatewayLease.ends_at > func.now())
        .outerjoin(GatewayLease, GatewayLease.gateway_id == Gateway.id)
        .outerjoin(GatewayHealth, GatewayHealth.gateway_id == Gateway.id)
        .execution_options(populate_existing=True)
    )
    query = query.order_by(Gateway.name) if cut is None else cut.of(query, Gateway.name)
    if name is not None:
        query = query.where(Gateway.name == name)
    return [_seen(*row) for row in await session.execute(query)]


def _seen(
    gateway: Gateway, lease: GatewayLease | None, health: GatewayHealth | None, held: bool | None
) -> Seen:
    if lease is None or not held:
        return Seen(gateway, "", "", lease.epoch if lease else 0, False, "no controller has it", health)
    if health is None or health.epoch != lease.epoch:
        return Seen(gateway, lease.holder_name, lease.holder, lease.epoch, False, "not connected yet", health)
    return Seen(gateway, lease.holder_name, lease.holder, lease.epoch, health.online, health.reason, health)
