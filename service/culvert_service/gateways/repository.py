"""SQL about gateways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from culvert_db import ControllerName, Gateway, Resource, ResourceGateway, SiteTunnel, Tunnel
from culvert_db.text import by_code_point
from sqlalchemy import exists, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased


async def by_name(session: AsyncSession, name: str) -> Gateway | None:
    return await session.scalar(select(Gateway).where(Gateway.name == name))


async def lock(session: AsyncSession, name: str) -> Gateway | None:
    """Lock the gateway: until this transaction ends no tunnel opens through it; open tunnels may still be rekeyed."""
    return await session.scalar(select(Gateway).where(Gateway.name == name).with_for_update(key_share=True))


async def controller_names(session: AsyncSession) -> frozenset[str]:
    """The reserved names, spelt as `issuance.canonical` does."""
    return frozenset(await session.scalars(select(ControllerName.name)))


async def reserve(session: AsyncSession, names: Collection[str]) -> None:
    await session.execute(
        insert(ControllerName).values([{"name": name} for name in sorted(names)]).on_conflict_do_nothing()
    )


async def resources_through(session: AsyncSession, gateway_id: int) -> Sequence[Resource]:
    query = select(Resource).join(ResourceGateway, ResourceGateway.resource_id == Resource.id)
    found = await session.scalars(
        query.where(ResourceGateway.gateway_id == gateway_id).order_by(by_code_point(Resource.name))
    )
    return found.all()


@dataclass(frozen=True, slots=True)
class Load:
    """A gateway's open tunnels, the resources that only it serves (`alone`), and its site tunnels (`end_of`), which cannot
    move.
    """

    tunnels: int
    alone: tuple[str, ...]
    end_of: tuple[str, ...]

    @property
    def stays(self) -> str:
        """The resources and site tunnels that no other gateway can take, as text; empty if none."""
        return ", ".join([*self.alone, *(f"the tunnel {name}" for name in self.end_of)])


async def loads(session: AsyncSession, gateway_ids: Sequence[int]) -> dict[int, Load]:
    """The loads by gateway. A draining gateway does not count as another gateway of a resource."""
    open_ones = Tunnel.gateway_id.in_(gateway_ids), Tunnel.stays()
    counted = select(Tunnel.gateway_id, func.count()).where(*open_ones).group_by(Tunnel.gateway_id)
    tunnels = {row[0]: row[1] for row in await session.execute(counted)}
    mine, other = aliased(ResourceGateway), aliased(ResourceGateway)
    helps = (
        exists()
        .where(other.resource_id == mine.resource_id, other.gateway_id != mine.gateway_id)
        .where(Gateway.id == other.gateway_id, Gateway.draining_since.is_(None))
    )
    query = select(mine.gateway_id, Resource.name).join(Resource, Resource.id == mine.resource_id)
    alone, end_of = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
    for gateway_id, name in await session.execute(
        query.where(mine.gateway_id.in_(gateway_ids), ~helps).order_by(by_code_point(Resource.name))
    ):
        alone[gateway_id].append(name)
    ends = select(SiteTunnel.name, SiteTunnel.a_gateway_id, SiteTunnel.b_gateway_id)
    for name, *between in await session.execute(ends.order_by(by_code_point(SiteTunnel.name))):
        for gateway_id in between:
            end_of[gateway_id].append(name)
    return {key: Load(tunnels.get(key, 0), tuple(alone[key]), tuple(end_of[key])) for key in gateway_ids}


async def uses(session: AsyncSession, gateway_id: int) -> str:
    """The gateway's uses as text; empty when nothing uses it."""
    resources = await resources_through(session, gateway_id)
    tunnels = await session.scalar(
        select(func.count()).select_from(Tunnel).where(Tunnel.gateway_id == gateway_id)
    )
    said = [f"it serves {', '.join(resource.name for resource in resources)}"] if resources else []
    if ends := await site_tunnels_of(session, gateway_id):
        said.append(f"it is an end of {', '.join(ends)}")
    return " and ".join(said + ([f"{tunnels} of its tunnels are open"] if tunnels else []))


async def site_tunnels_of(session: AsyncSession, gateway_id: int) -> Sequence[str]:
    """The names of the gateway's site tunnels."""
    ends = or_(SiteTunnel.a_gateway_id == gateway_id, SiteTunnel.b_gateway_id == gateway_id)
    return (
        await session.scalars(select(SiteTunnel.name).where(ends).order_by(by_code_point(SiteTunnel.name)))
    ).all()
