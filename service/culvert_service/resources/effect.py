"""What a resource would do, before it is there, and what hangs on it, before it goes."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from culvert_db import Database
from culvert_proto import CulvertError, Reason
from culvert_proto.dns_name import WILDCARD

from culvert_service.resources import effect_repository as repository
from culvert_service.resources import target
from culvert_service.resources.schemas import PreviewOut, PublishedOut, ResourceIn, UseOut
from culvert_service.resources.service import Resources

# RFC 1035 section 3.2.2 and RFC 3596 section 2.1.
_TYPES = {4: "A", 6: "AAAA"}


class Effects:
    def __init__(self, database: Database, resources: Resources) -> None:
        self._database = database
        self._resources = resources

    async def preview(self, asked: ResourceIn) -> PreviewOut:
        """Raises what creating it would."""
        async with self._database() as session:
            await self._resources.insert(session, asked)
            people = list(dict.fromkeys(asked.users))
            # Before the new one is asked for: what is written is never committed.
            zones = await repository.zones(session)
            await session.rollback()
        return PreviewOut(records=_published(asked, zones), people=people)

    async def use(self, name: str) -> UseOut:
        """Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            found = await repository.use(session, name)
        if found is None:
            raise CulvertError(Reason.NOT_FOUND, what=f"The resource {name}")
        return UseOut(
            tunnels=found.tunnels,
            people=found.people,
            policies_deleted=found.policies_deleted,
            site_tunnels=found.site_tunnels,
        )


def _published(asked: ResourceIn, zones: Sequence[repository.Zone]) -> list[PublishedOut]:
    """Into each view of the most specific origin that holds the name, unless the view has a choice of its own."""
    if asked.fqdn.startswith(WILDCARD):
        return []
    hosts = target.hosts([one.row() for one in asked.targets])
    types = sorted({_TYPES[ipaddress.ip_address(host).version] for host in hosts})
    holding = [zone for zone in zones if asked.fqdn == zone.origin or asked.fqdn.endswith(f".{zone.origin}")]
    longest = max((len(zone.origin) for zone in holding), default=0)
    return [
        PublishedOut(zone=zone.name, origin=zone.origin, types=[*types, "TXT"])
        for zone in holding
        if types and len(zone.origin) == longest and zone.all_resources
    ]
