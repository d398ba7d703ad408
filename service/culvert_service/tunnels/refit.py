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
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.tunnels import leading, records, repository
from culvert_service.tunnels.closing import Finish
from culvert_service.tunnels.record import TunnelRecord

# Closes these tunnels, in the transaction.
Close = Callable[[AsyncSession, Sequence[TunnelRecord], CulvertError], Awaitable[Finish]]
# Writes the change, so that statements after it find it.
Change = Callable[[], Awaitable[None]]


class Refit:
    def __init__(self, close: Close, now: Callable[[], datetime.datetime]) -> None:
        self._close = close
        self._now = now

    async def of_gateway(self, session: AsyncSession, gateway: Gateway, change: Change) -> Finish:
        """The gateway's row is locked. Devices whose addresses are not in its pools any more get others."""
        which, what = Tunnel.gateway_id == gateway.id, f"the gateway {gateway.name}"
        finish = await self._change(session, which, what, change)
        await repository.delete_addresses_outside(session, gateway)
        return finish

    async def of_resource(self, session: AsyncSession, resource_id: int, name: str, change: Change) -> Finish:
        """The resource's row is locked."""
        was = await leading.serving(session, resource_id)
        which = Tunnel.resource_id == resource_id
        finish = await self._change(session, which, Phrase("the resource {name}", name=name), change)
        await leading.lead_away(session, resource_id, was, self._now)
        return finish

    async def _change(
        self, session: AsyncSession, which: ColumnElement[bool], what: str, change: Change
    ) -> Finish:
        before = await records.held(session, which)
        await change()
        unfit = await records.unfit(session, before)
        return await self._close(session, unfit, CulvertError(Reason.TUNNEL_OUTDATED, what=what))
