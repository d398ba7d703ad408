"""Changes of gateways and resources under open tunnels: a tunnel that would be another afterwards is closed with them.

 rows locked ─► tunnels as they are ─► change ─► the same tunnels as they would be ─► those that differ: closed
                                                                                  └► those at the wrong gateway: marked

 gateways before ─┐
 gateways after ──┴─► tunnels behind others that were not there ─┐
                      tunnels at none of them ── by a time ──────┴─► marked ─► failover.py asks their devices

All in the transaction of the change. An opening that has read what was before finds, when it comes to its tunnel's row,
that the version is another, and begins anew (hot_queries.insert_tunnel): no tunnel has entries of a former description.

A marked tunnel carries on until its device has opened it elsewhere. At a gateway that is none of the resource's any more
it does so for a while only: then its permission ends, and is not given again.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from culvert_db import Gateway
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.transaction import Transaction
from culvert_service.identity.service import Now
from culvert_service.tunnels import repository
from culvert_service.tunnels.closing import ClosedTunnels, Closing
from culvert_service.tunnels.record import TunnelRecord

# Devices that watch move within seconds. Those that do not call lose what their gateway must not carry any more.
MOVE_WITHIN = datetime.timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class GatewayOrder:
    """The gateways of a resource, by id; `weighted`: each device has its own order."""

    gateways: tuple[int, ...]
    weighted: bool

    def before(self, gateway: int) -> tuple[int, ...] | None:
        """The gateways that every device tries before it; None when they are unknown."""
        if self.weighted or gateway not in self.gateways:
            return None
        return self.gateways[: self.gateways.index(gateway)]


def find_behind(was: GatewayOrder, now: GatewayOrder) -> frozenset[int]:
    """Gateways that come after others than they did. With weights nobody is led anywhere: only who opens chooses. Pure."""
    return frozenset(it for it in now.gateways if (first := now.before(it)) and first != was.before(it))


class Refit:
    """Each method locks the tunnels of a gateway or resource, whose own row is locked, before it changes."""

    def __init__(self, closing: Closing, now: Now) -> None:
        self._closing = closing
        self._now = now

    async def lock_at_gateway(self, transaction: Transaction, gateway: Gateway) -> TunnelsAtGateway:
        before = await repository.lock_all(transaction, repository.is_at_gateway(gateway.id))
        return TunnelsAtGateway(self._closing, transaction, gateway, before)

    async def lock_to_resource(
        self, transaction: Transaction, resource_id: int, name: str
    ) -> TunnelsToResource:
        was = await _read_order(transaction.session, resource_id)
        before = await repository.lock_all(transaction, repository.leads_to(resource_id))
        return TunnelsToResource(self._closing, self._now, transaction, resource_id, name, was, before)


@dataclass(frozen=True, slots=True)
class TunnelsAtGateway:
    """Locked, as they were before the gateway changes."""

    _closing: Closing
    _transaction: Transaction
    _gateway: Gateway
    _before: Sequence[TunnelRecord]

    async def close_unfit(self) -> ClosedTunnels:
        """After the change is written. Devices whose addresses are not in the gateway's pools any more get others."""
        what = f"the gateway {self._gateway.name}"
        closed = await _close_unfit(self._closing, self._transaction, self._before, what)
        await repository.delete_addresses_outside(self._transaction.session, self._gateway)
        return closed


@dataclass(frozen=True, slots=True)
class TunnelsToResource:
    """Locked, as they were before the resource changes."""

    _closing: Closing
    _now: Now
    _transaction: Transaction
    _resource_id: int
    _name: str
    _was: GatewayOrder
    _before: Sequence[TunnelRecord]

    async def close_unfit(self) -> ClosedTunnels:
        """After the change is written. Marks those that go to another gateway."""
        what = Phrase("the resource {name}", name=self._name)
        closed = await _close_unfit(self._closing, self._transaction, self._before, what)
        session = self._transaction.session
        after = await _read_order(session, self._resource_id)
        if after != self._was:
            await repository.lead_away(
                session,
                self._resource_id,
                after.gateways,
                find_behind(self._was, after),
                self._now() + MOVE_WITHIN,
            )
        return closed


async def _close_unfit(
    closing: Closing, transaction: Transaction, before: Sequence[TunnelRecord], what: str
) -> ClosedTunnels:
    now = await repository.read_possible(transaction, [record.id for record in before])
    unfit = [record for record in before if not record.is_like(now.get(record.id))]
    return await closing.close_locked(transaction, unfit, CulvertError(Reason.TUNNEL_OUTDATED, what=what))


async def _read_order(session: AsyncSession, resource_id: int) -> GatewayOrder:
    rows = await repository.list_weights(session, resource_id)
    gateways = tuple(gateway_id for gateway_id, _ in rows)
    return GatewayOrder(gateways, any(weight is not None for _, weight in rows))
