"""The effect of publishing a resource, and of deleting one."""

from __future__ import annotations

from collections.abc import Sequence

from culvert_db import Database
from culvert_db.published import hosts, origin_of, origins, published_name, publishes, record_types
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_service.resources import repository
from culvert_service.resources.schemas import PreviewOut, PublishedOut, ResourceIn, UseOut
from culvert_service.resources.service import Resources


class ResourceEffects:
    def __init__(self, database: Database, resources: Resources) -> None:
        self._database = database
        self._resources = resources

    async def preview(self, asked: ResourceIn) -> PreviewOut:
        """The effect of creating the resource. Raises as creating it."""
        async with self._database() as session:
            await self._resources.insert(session, asked)
            people = list(dict.fromkeys(asked.users))
            # Read in the same transaction, which is then rolled back.
            zones = await repository.zones(session)
            await session.rollback()
        return PreviewOut(records=_list_published(asked, zones), people=people)

    async def use(self, name: str) -> UseOut:
        """Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            found = await repository.use(session, name)
        if found is None:
            raise CulvertError(Reason.NOT_FOUND, what=Phrase("The resource {name}", name=name))
        return UseOut(
            tunnels=found.tunnels,
            people=found.people,
            policies_deleted=found.policies_deleted,
            site_tunnels=found.site_tunnels,
        )


def _list_published(asked: ResourceIn, zones: Sequence[repository.Zone]) -> list[PublishedOut]:
    name, addresses = published_name(asked.fqdn), hosts(target.row() for target in asked.targets)
    if name is None or not addresses:
        return []
    origin = origin_of(name, origins(zones))
    return [
        PublishedOut(zone=zone.name, origin=zone.origin, types=record_types(addresses))
        for zone in zones
        if publishes(zone, name, origin)
    ]
