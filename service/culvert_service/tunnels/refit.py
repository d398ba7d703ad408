"""Changes of gateways and resources under open tunnels: a tunnel whose entries would differ afterwards is closed.

 rows locked ─► tunnels as they are ─► change ─► the same tunnels as they would be ─► those that differ: closed
                                                                                  └► those at the wrong gateway: marked

 gateways before ─┐
 gateways after ──┴─► tunnels behind others that were not there ─┐
                      tunnels at none of them ── by a time ──────┴─► marked ─► failover.py asks their devices

All steps run in the transaction of the change. An OpenTunnel that has read the old version finds the new version when it
inserts its row, and starts again (hot_queries.insert_tunnel): so no tunnel has entries of an old version.

A marked tunnel works until its device has opened it at another gateway. At a gateway that no longer serves the resource
it works for MOVE_WITHIN only: then its permission ends for good.
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

# Devices that watch move within seconds. Devices that do not call lose tunnels that their gateway must not carry now.
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
    """Gateways that now have other gateways before them. Empty with weights: these count at the next opening only. Pure."""
    return frozenset(it for it in now.gateways if (first := now.before(it)) and first != was.before(it))


class Refit:
    """Locks the tunnels of a gateway or resource before it changes. The caller has locked its row."""

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
    """A gateway's locked tunnels, as read before its change."""

    _closing: Closing
    _transaction: Transaction
    _gateway: Gateway
    _before: Sequence[TunnelRecord]

    async def close_unfit(self) -> ClosedTunnels:
        """Close tunnels after the change is written, and delete addresses that are no longer in the gateway's pools."""
        what = f"the gateway {self._gateway.name}"
        closed = await _close_unfit(self._closing, self._transaction, self._before, what)
        await repository.delete_addresses_outside(self._transaction.session, self._gateway)
        return closed


@dataclass(frozen=True, slots=True)
class TunnelsToResource:
    """A resource's locked tunnels, as read before its change."""

    _closing: Closing
    _now: Now
    _transaction: Transaction
    _resource_id: int
    _name: str
    _was: GatewayOrder
    _before: Sequence[TunnelRecord]

    async def close_unfit(self) -> ClosedTunnels:
        """Close tunnels after the change is written, and mark those that must move to another gateway."""
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
