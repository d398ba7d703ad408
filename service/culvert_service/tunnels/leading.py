"""Other gateways for a resource, or another order of them: its tunnels go where they would be opened now. Which, is pure.

 gateways before ─┐
 gateways after ──┴─► tunnels behind others that were not there ─┐
                      tunnels at none of them ── by a time ──────┴─► marked ─► failover.py asks their devices

A tunnel is marked in the transaction of the change, and carries on until its device has opened it elsewhere. At a gateway
that is none of the resource's any more it does so for a while only: then its permission ends, and is not given again.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from culvert_db import ResourceGateway, Tunnel
from sqlalchemy import case, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

# Devices that watch move within seconds. Those that do not call lose what their gateway must not carry any more.
MOVE_WITHIN = datetime.timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Serving:
    """The gateways of a resource, by id, in order; `weighted`: each device has its own order."""

    gateways: tuple[int, ...]
    weighted: bool

    def before(self, gateway: int) -> tuple[int, ...] | None:
        """The gateways that every device tries before it; None when they are unknown."""
        if self.weighted or gateway not in self.gateways:
            return None
        return self.gateways[: self.gateways.index(gateway)]


def behind(was: Serving, now: Serving) -> frozenset[int]:
    """Gateways that come after others than they did. With weights nobody is led anywhere: only who opens chooses."""
    return frozenset(it for it in now.gateways if (first := now.before(it)) and first != was.before(it))


async def serving(session: AsyncSession, resource_id: int) -> Serving:
    query = select(ResourceGateway.gateway_id, ResourceGateway.weight)
    found = await session.execute(
        query.where(ResourceGateway.resource_id == resource_id).order_by(ResourceGateway.position)
    )
    rows = found.all()
    return Serving(tuple(row[0] for row in rows), any(row[1] is not None for row in rows))


async def lead_away(
    session: AsyncSession, resource_id: int, was: Serving, now: Callable[[], datetime.datetime]
) -> None:
    """After the change, in its transaction."""
    after = await serving(session, resource_id)
    if was == after:
        return
    left = Tunnel.gateway_id.not_in(after.gateways)
    by = func.least(Tunnel.permitted_until, now() + MOVE_WITHIN)
    await session.execute(
        update(Tunnel)
        .where(Tunnel.resource_id == resource_id, Tunnel.stays())
        .where(or_(left, Tunnel.gateway_id.in_(behind(was, after))))
        .values(led_away=True, permitted_until=case((left, by), else_=Tunnel.permitted_until))
        .execution_options(synchronize_session=False)
    )
