"""Changes of resources that site tunnels carry.

resource locked ─► its tunnels and their gateways locked ─► change ─► each tunnel still fits? no ─► refused with its name
                                                                       └► yes: its entries follow the new profile
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from culvert_db import SiteTunnel, clock
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Line
from culvert_service.audit.transaction import Transaction
from culvert_service.site_tunnels import fit, repository
from culvert_service.site_tunnels.programming import Programming
from culvert_service.site_tunnels.record import (
    SiteTunnelRecord,
    flows_at,
    parse,
    place_of,
    wanted_limits,
    wanted_suite,
)

# Before a change of a resource: the packets of each site tunnel that carries it.
CarriedBefore = Mapping[uuid.UUID, object]


@dataclass(frozen=True, slots=True)
class FollowedTunnels:
    """The tunnels that a change of a resource has changed."""

    _programming: Programming
    _records: Sequence[SiteTunnelRecord] = ()

    async def finish(self) -> None:
        """After the commit: program the gateways."""
        for record in self._records:
            await self._programming.follow(record)


class Following:
    def __init__(self, programming: Programming) -> None:
        self._programming = programming

    async def hold(self, session: AsyncSession, resource_id: int) -> CarriedBefore:
        """Lock the tunnels before the locked resource changes, and before any device's rows are locked."""
        rows = await repository.lock_carrying(session, resource_id)
        await repository.gateways_locked(session, {it.name for row in rows for it in (row.a, row.b)})
        return {row.id: _terms(row) for row in rows}

    async def follow(self, transaction: Transaction, resource: str, before: CarriedBefore) -> FollowedTunnels:
        """Check the tunnels after the change, in its transaction. Raises CulvertError RESOURCE_IN_USE."""
        if not before:
            return FollowedTunnels(self._programming)
        session = transaction.session
        rows = await repository.rows(session, None, SiteTunnel.id.in_(before))
        for row in rows:
            try:
                await fit.check(session, row)
            except CulvertError as error:
                why = fit.why_unfit(error)
                raise CulvertError(
                    Reason.RESOURCE_IN_USE, tunnel=row.name, resource=resource, why=why
                ) from None
        changed = [row.id for row in rows if _terms(row) != before[row.id]]
        if not changed:
            return FollowedTunnels(self._programming)
        await repository.count_version(session, changed)
        now = await clock(session)
        rows = await repository.rows(session, None, SiteTunnel.id.in_(changed))
        for row in rows:
            carried = {it.name: " ".join(place_of(row, it).prefixes()) for it in (row.a, row.b)}
            told: dict[str, Detail] = {"resource": resource, **carried}
            transaction.audit(Line("site-tunnel.follow", f"site-tunnel/{row.name}", told))
        await repository.tell(session)
        return FollowedTunnels(self._programming, [parse(row, now) for row in rows])

    async def check_free(self, session: AsyncSession, resource_id: int, resource: str) -> None:
        """Raises CulvertError RESOURCE_IN_USE if a site tunnel carries the resource."""
        if rows := await repository.lock_carrying(session, resource_id):
            tunnels = ", ".join(sorted(row.name for row in rows))
            why = Phrase("it cannot be deleted")
            raise CulvertError(Reason.RESOURCE_IN_USE, tunnel=tunnels, resource=resource, why=why)


def _terms(row: SiteTunnel) -> object:
    return flows_at(row, row.a), wanted_suite(row), wanted_limits(row)
