"""Changes of gateways and resources under open tunnels: a tunnel that would be another afterwards is closed with them.

 rows locked ─► tunnels as they are ─► change ─► the same tunnels as they would be ─► those that differ: closed
                                                                                  └► those at the wrong gateway: leading.py

All in the transaction of the change. An opening that has read what was before finds, when it comes to its tunnel's row,
that the version is another, and begins anew (repository.insert_tunnel): no tunnel has entries of a former description.
"""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable, Sequence

from culvert_db import Gateway, Tunnel
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy import ColumnElement

from culvert_service.audit.transaction import Transaction
from culvert_service.tunnels import leading, repository
from culvert_service.tunnels.closing import Finish
from culvert_service.tunnels.record import TunnelRecord

# Closes these tunnels, in the transaction.
Close = Callable[[Transaction, Sequence[TunnelRecord], CulvertError], Awaitable[Finish]]
# Writes the change, so that statements after it find it.
Change = Callable[[], Awaitable[None]]


class Refit:
    def __init__(self, close: Close, now: Callable[[], datetime.datetime]) -> None:
        self._close = close
        self._now = now

    async def of_gateway(self, transaction: Transaction, gateway: Gateway, change: Change) -> Finish:
        """The gateway's row is locked. Devices whose addresses are not in its pools any more get others."""
        which, what = Tunnel.gateway_id == gateway.id, f"the gateway {gateway.name}"
        finish = await self._change(transaction, which, what, change)
        await repository.delete_addresses_outside(transaction.session, gateway)
        return finish

    async def of_resource(
        self, transaction: Transaction, resource_id: int, name: str, change: Change
    ) -> Finish:
        """The resource's row is locked."""
        was = await leading.serving(transaction.session, resource_id)
        which = Tunnel.resource_id == resource_id
        finish = await self._change(transaction, which, Phrase("the resource {name}", name=name), change)
        await leading.lead_away(transaction.session, resource_id, was, self._now)
        return finish

    async def _change(
        self, transaction: Transaction, which: ColumnElement[bool], what: str, change: Change
    ) -> Finish:
        before = await repository.held(transaction, which)
        await change()
        unfit = await repository.unfit(transaction, before)
        return await self._close(transaction, unfit, CulvertError(Reason.TUNNEL_OUTDATED, what=what))
