"""The effect of publishing, changing and deleting a resource: makes the change, reads its effect, and rolls back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from culvert_db import Database
from culvert_db.published import (
    Address,
    hosts,
    origin_of,
    origins,
    published_name,
    publishes,
    record_types,
)
from culvert_proto import CulvertError, Reason
from culvert_proto.dns_name import make_readable
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.log import CONTROLLER
from culvert_service.audit.repository import display_names
from culvert_service.audit.transaction import begin_uncommitted
from culvert_service.decision.assertions import assertions, broken_since
from culvert_service.identity.schemas import SHOWN, SomePeopleOut
from culvert_service.identity.tunnels import Permissions
from culvert_service.resources import repository
from culvert_service.resources.repository import State
from culvert_service.resources.schemas import PreviewOut, PublishedOut, ResourceIn, UseOut
from culvert_service.resources.service import Resources
from culvert_service.rest.version import MayMatch

_NOTHING = State("", (), (), frozenset(), 0, 0)


class ResourceEffects:
    def __init__(self, database: Database, resources: Resources, permissions: Permissions) -> None:
        self._database = database
        self._resources = resources
        self._permissions = permissions

    async def preview(self, replaced: str | None, asked: ResourceIn) -> PreviewOut:
        """The effect of creating the resource, or of replacing the resource `replaced`. Raises as these, except
        ASSERTION_BROKEN.
        """
        async with begin_uncommitted(self._database, CONTROLLER) as transaction:
            session = transaction.session
            asserted = await assertions(session)
            before, unpermitted = _NOTHING, 0
            if replaced is None:
                await self._resources.insert(session, asked)
            else:
                before = await repository.state(session, replaced) or _NOTHING
                await self._resources.write(transaction, replaced, asked, MayMatch())
                unpermitted = await self._permissions.count_unpermitted(session)
            breaks = await broken_since(session, asserted)
            after = await repository.state(session, asked.name) or _NOTHING
            gain = await _some(session, after.people - before.people)
            lose = await _some(session, before.people - after.people)
        was, now = _list_records(before), _list_records(after)
        # A tunnel that moves and is not permitted any more is closed.
        moved = min(after.moving - before.moving, after.tunnels - unpermitted)
        return PreviewOut(
            records=[it.out(it.types) for it in now if it not in was],
            withdrawn=_list_withdrawn(was, now),
            gain=gain,
            lose=lose,
            tunnels_closed=before.tunnels - after.tunnels + unpermitted,
            tunnels_moved=max(0, moved),
            breaks=breaks,
        )

    async def use(self, name: str) -> UseOut:
        """Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            found = await repository.use(session, name)
            resource = await repository.by_name(session, name)
            if found is None or resource is None:
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The resource {name}", name=name))
            asserted = await assertions(session)
            # As good as deleted for access; its open tunnels do not let the row go.
            resource.fqdn = f"{resource.id}.invalid"
            breaks = await broken_since(session, asserted)
            await session.rollback()
        return UseOut(
            tunnels=found.tunnels,
            people=found.people,
            policies_deleted=found.policies_deleted,
            site_tunnels=found.site_tunnels,
            breaks=breaks,
        )


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of a published name in a zone or view."""

    zone: str
    origin: str
    name: str
    addresses: tuple[Address, ...]

    @property
    def types(self) -> list[str]:
        return record_types(self.addresses)

    def out(self, types: list[str]) -> PublishedOut:
        return PublishedOut(
            zone=self.zone, origin=self.origin, types=types, display_name=make_readable(self.name)
        )


def _list_withdrawn(was: Sequence[_Records], now: Sequence[_Records]) -> list[PublishedOut]:
    kept = {(it.zone, it.name, kind) for it in now for kind in it.types}
    gone = ((it, [kind for kind in it.types if (it.zone, it.name, kind) not in kept]) for it in was)
    return [it.out(types) for it, types in gone if types]


def _list_records(resource: State) -> list[_Records]:
    name, addresses = published_name(resource.fqdn), hosts(resource.targets)
    if name is None or not addresses:
        return []
    origin = origin_of(name, origins(resource.zones))
    return [
        _Records(zone.name, zone.origin, name, tuple(addresses))
        for zone in resource.zones
        if publishes(zone, name, origin)
    ]


async def _some(session: AsyncSession, people: Collection[str]) -> SomePeopleOut:
    first = sorted(people)[:SHOWN]
    return SomePeopleOut.of(len(people), first, await display_names(session, first))
