"""SQL about the counts that the metrics show."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from culvert_db import (
    Device,
    DeviceState,
    DnsRecord,
    DnsState,
    DnsZoneStatus,
    Gateway,
    GatewaySample,
    SiteTunnel,
    SiteTunnelState,
    Tunnel,
    TunnelState,
)
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession


@dataclass(frozen=True, slots=True)
class StateCounts:
    """`drops` has each gateway's dropped packets by cause, `certificates` the end of its certificate."""

    tunnels: Sequence[tuple[str, TunnelState, int]]
    site_tunnels: Sequence[tuple[SiteTunnelState, int]]
    records: Sequence[tuple[str, DnsState, int]]
    zones: Sequence[tuple[DnsState, int]]
    drops: Sequence[tuple[str, dict[str, int]]]
    devices: Sequence[tuple[DeviceState, int]]
    certificates: Sequence[tuple[str, datetime.datetime | None]]


async def counts(session: AsyncSession, sampled: datetime.timedelta) -> StateCounts:
    """A gateway without a sample of the time `sampled` is absent from `drops`."""
    tunnels = (
        select(Gateway.name, Tunnel.state, func.count())
        .join_from(Tunnel, Gateway, Tunnel.gateway_id == Gateway.id)
        .group_by(Gateway.name, Tunnel.state)
    )
    site_tunnels = select(SiteTunnel.state, func.count()).group_by(SiteTunnel.state)
    records = select(DnsRecord.zone, DnsRecord.state, func.count()).group_by(DnsRecord.zone, DnsRecord.state)
    zones = select(DnsZoneStatus.state, func.count()).group_by(DnsZoneStatus.state)
    newest = (
        select(Gateway.name, GatewaySample.drops)
        .join(Gateway, Gateway.id == GatewaySample.gateway_id)
        .ext(distinct_on(Gateway.name))
        .order_by(Gateway.name, GatewaySample.at.desc())
    )
    drops = newest.where(GatewaySample.at > func.now() - sampled)
    devices = select(Device.state, func.count()).group_by(Device.state)
    certificates = select(Gateway.name, Gateway.certificate_expires_at)
    return StateCounts(
        (await session.execute(tunnels)).all(),
        (await session.execute(site_tunnels)).all(),
        (await session.execute(records)).all(),
        (await session.execute(zones)).all(),
        (await session.execute(drops)).all(),
        (await session.execute(devices)).all(),
        (await session.execute(certificates)).all(),
    )
