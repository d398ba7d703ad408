"""A device's tunnels before it opens one: their gateways, and its inner addresses there.

A program that sends before its tunnel is open sends from the tunnel's address then: its connection goes on in the tunnel.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from culvert_db import Address, Database, Gateway, InSession, Resource, ResourceGateway
from sqlalchemy import Integer, any_, bindparam, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.decision.decision import GatewayFact, in_turn
from culvert_service.gateways.fleet import Fleet
from culvert_service.tunnels import hot_queries
from culvert_service.tunnels.pool import Inner

_SERVING = (
    select(ResourceGateway.resource_id, Gateway.name, ResourceGateway.weight)
    .join(Gateway, Gateway.id == ResourceGateway.gateway_id)
    .where(ResourceGateway.resource_id == any_(bindparam("resources", type_=ARRAY(Integer))))
    .order_by(ResourceGateway.resource_id, ResourceGateway.position)
)
_ALLOTTED = (
    select(Gateway.name, Address.address, Address.address6)
    .join(Gateway, Gateway.id == Address.gateway_id)
    .where(Address.device_id == bindparam("device"))
)


@dataclass(frozen=True, slots=True)
class Allotment:
    """`inner`: the device's addresses by gateway. `gateways`: those that carry a resource, by its id, in the order in which
    they are tried."""

    inner: Mapping[str, Inner] = field(default_factory=dict[str, Inner])
    gateways: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])


class InnerAddresses:
    def __init__(self, database: Database, fleet: Fleet) -> None:
        self._database = database
        self._fleet = fleet

    async def of(self, device_id: uuid.UUID, resources: Sequence[Resource]) -> Allotment:
        """Allots the device an address at each gateway that is the first of some resource, as long as there is room."""
        async with self._database() as session:
            gateways = await self._gateways(session, device_id, [it.id for it in resources])
            rows = await session.execute(_ALLOTTED, {"device": device_id})
            inner = {name: Inner(address, address6) for name, address, address6 in rows}
        first = {names[0] for names in gateways.values()}
        if missing := first - inner.keys():
            inner |= await self._allot(device_id, missing)
        return Allotment(inner, gateways)

    async def _gateways(
        self, session: AsyncSession, device_id: uuid.UUID, resources: Sequence[int]
    ) -> dict[int, Sequence[str]]:
        serving: defaultdict[int, list[GatewayFact]] = defaultdict(list)
        for resource_id, name, weight in await session.execute(_SERVING, {"resources": resources}):
            serving[resource_id].append(self._fact(name, weight))
        return {resource_id: _names(device_id, facts) for resource_id, facts in serving.items()}

    def _fact(self, name: str, weight: int | None) -> GatewayFact:
        standing = self._fleet.standing(name)
        if standing is None:
            return GatewayFact(name, online=False, weight=weight)
        return GatewayFact(name, standing.online, standing.draining, weight)

    async def _allot(self, device_id: uuid.UUID, names: Collection[str]) -> dict[str, Inner]:
        found: dict[str, Inner] = {}
        try:
            async with self._database.begin() as session:
                # In one order, and against a change of the pools meanwhile.
                rows = select(Gateway).where(Gateway.name.in_(names)).order_by(Gateway.id)
                for gateway in (await session.scalars(rows.with_for_update(read=True))).all():
                    inner = await hot_queries.assign_early(InSession(session), gateway, device_id)
                    if inner is not None:
                        found[gateway.name] = inner
        except IntegrityError:
            # The device was deleted meanwhile.
            return {}
        return found


def _names(device_id: uuid.UUID, facts: Sequence[GatewayFact]) -> Sequence[str]:
    """The gateways that can carry something now; all when none can."""
    order = in_turn(device_id, facts)
    able = [fact.name for fact in order if fact.obstacle() is None]
    return able or [fact.name for fact in order]
