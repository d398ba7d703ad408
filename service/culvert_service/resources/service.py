"""Resources: create, change, delete. Postgres notifies dns-updater of each change."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from culvert_db import Database, Policy, Resource, ResourceGateway
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import Suite
from culvert_proto.dns_name import unicode
from culvert_proto.phrases import Phrase
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import AfterCommit, Transaction, begin
from culvert_service.decision.assertions import kept
from culvert_service.gateways.record import check_serves
from culvert_service.gateways.repository import have_servers_found
from culvert_service.identity.tunnels import LockedTunnels, Permissions
from culvert_service.resources import repository
from culvert_service.resources.schemas import DeletedOut, Rekey, ResourceIn, ResourceOut
from culvert_service.resources.target import Target
from culvert_service.rest.field import FieldError, to_field_error
from culvert_service.rest.page import Page, Sort
from culvert_service.rest.version import MayMatch
from culvert_service.watch.hub import Hub

_Row = TypeVar("_Row")


class ResourceTunnels(Protocol):
    async def close_to_resource(self, transaction: Transaction, resource_id: int) -> AfterCommit:
        """Close every tunnel to a resource, in the transaction that deletes it."""
        ...


class ResourceRefit(Protocol):
    async def lock_to_resource(self, transaction: Transaction, resource_id: int, name: str) -> LockedTunnels:
        """Lock the tunnels to the locked resource, before it changes."""
        ...


class ChangedTunnels(Protocol):
    """The site tunnels that a change of a resource has changed."""

    async def finish(self) -> None:
        """After the commit: program the gateways."""
        ...


class CarryingTunnels(Protocol):
    """The site tunnels that carry a resource. Each method runs in the transaction of the change."""

    async def hold(self, session: AsyncSession, resource_id: int) -> Mapping[uuid.UUID, object]:
        """Lock them. Returns the packets that each carries now."""
        ...

    async def follow(
        self, transaction: Transaction, resource: str, before: Mapping[uuid.UUID, object]
    ) -> ChangedTunnels:
        """Check them after the change. Raises CulvertError RESOURCE_IN_USE."""
        ...

    async def check_free(self, session: AsyncSession, resource_id: int, resource: str) -> None:
        """Raises CulvertError RESOURCE_IN_USE while a tunnel carries the resource."""
        ...


class Zones(Protocol):
    """The zones whose names devices look up through Culvert."""

    async def read(self, session: AsyncSession) -> Sequence[str]:
        """Their names, as they are in the session's transaction."""
        ...


class Resources:
    def __init__(
        self,
        database: Database,
        hub: Hub,
        tunnels: ResourceTunnels,
        refit: ResourceRefit,
        site_tunnels: CarryingTunnels,
        permissions: Permissions,
        managed_zones: Zones,
    ) -> None:
        self._database = database
        self._hub = hub
        self._tunnels = tunnels
        self._refit = refit
        self._site_tunnels = site_tunnels
        self._permissions = permissions
        self._zones = managed_zones

    async def create(self, by: Actor, asked: ResourceIn) -> tuple[ResourceOut, int]:
        """Returns the resource and its version. Raises CulvertError REQUEST_INVALID, SUITE_LEGACY, NOT_FOUND,
        ALREADY_EXISTS or ASSERTION_BROKEN.
        """
        async with begin(self._database, by) as transaction:
            async with kept(transaction.session):
                await self.insert(transaction.session, asked)
            transaction.audit(_line("resource.create", asked))
        self._hub.profiles_changed()
        return await self.get(asked.name)

    async def insert(self, session: AsyncSession, asked: ResourceIn) -> None:
        """Add the resource's rows, without a commit. Raises the same errors as `create`."""
        await self._check_zone(session, asked)
        resource = Resource(name=asked.name, **_fields(asked), gateways=await _find_serving(session, asked))
        try:
            session.add(resource)
            session.add_all(await _make_policies(session, resource, asked.users))
            await session.flush()
        except IntegrityError as error:
            raise _conflict_error(asked, error) from None

    async def replace(
        self, by: Actor, name: str, asked: ResourceIn, seen: MayMatch
    ) -> tuple[ResourceOut, int]:
        """Raises as `create`, and VERSION_NEEDED, VERSION_STALE or RESOURCE_IN_USE."""
        async with begin(self._database, by) as transaction:
            async with kept(transaction.session):
                closed, followed = await self.write(transaction, name, asked, seen)
            transaction.audit(_line("resource.replace", asked))
        await closed.finish()
        await followed.finish()
        await self._permissions.enforce()
        self._hub.profiles_changed()
        return await self.get(name)

    async def write(
        self, transaction: Transaction, name: str, asked: ResourceIn, seen: MayMatch
    ) -> tuple[AfterCommit, ChangedTunnels]:
        """Replace the resource's rows and close the tunnels that do not fit any more, without a commit.

        Raises the same errors as `replace`, except ASSERTION_BROKEN.
        """
        if asked.name != name:
            raise CulvertError(
                Reason.REQUEST_INVALID, why=Phrase("a resource keeps its name; its fqdn may change")
            )
        session = transaction.session
        try:
            await self._check_zone(session, asked)
            resource = await _lock(session, name, seen)
            carried = await self._site_tunnels.hold(session, resource.id)
            serving = await _find_serving(session, asked)
            tunnels = await self._refit.lock_to_resource(transaction, resource.id, name)
            for field, value in _fields(asked).items():
                setattr(resource, field, value)
            await repository.replace_gateways(session, resource.id, serving)
            closed = await tunnels.close_unfit()
            followed = await self._site_tunnels.follow(transaction, name, carried)
            shown = set((await repository.people_of(session, [resource.id])).get(resource.id, []))
            await repository.withdraw(session, resource.id, shown - set(asked.users))
            session.add_all(await _make_policies(session, resource, asked.users, shown))
            await session.flush()
        except IntegrityError as error:
            raise _conflict_error(asked, error) from None
        return closed, followed

    async def list(self, page: Page, q: str | None, gateway: str | None, sort: str) -> list[ResourceOut]:
        """The resources that contain `q` and are served by `gateway`."""
        order = Sort(page, repository.ORDERS, sort, repository.BY_ID)
        async with self._database() as session:
            shown = await repository.resources(session, order, q, gateway)
            people = await repository.people_of(session, [resource.id for resource in shown])
        return [_out(resource, people.get(resource.id, [])) for resource in shown]

    async def get(self, name: str) -> tuple[ResourceOut, int]:
        """The resource and its version. Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            resource = await repository.by_name(session, name)
            if resource is None:
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The resource {name}", name=name))
            people = await repository.people_of(session, [resource.id])
        return _out(resource, people.get(resource.id, [])), resource.version

    async def delete(self, by: Actor, name: str, seen: MayMatch) -> DeletedOut:
        """Raises CulvertError NOT_FOUND, VERSION_STALE, RESOURCE_IN_USE or ASSERTION_BROKEN."""
        async with begin(self._database, by) as transaction:
            session = transaction.session
            resource = await _lock(session, name, seen)
            await self._site_tunnels.check_free(session, resource.id, name)
            closed = await self._tunnels.close_to_resource(transaction, resource.id)
            async with kept(session):
                await session.delete(resource)
                await session.flush()
                await repository.delete_policies_without_resources(session)
            transaction.audit(Line("resource.delete", f"resource/{name}", {"fqdn": resource.fqdn}))
        tunnels_closed = await closed.finish()
        self._hub.profiles_changed()
        return DeletedOut(tunnels_closed=tunnels_closed)

    async def _check_zone(self, session: AsyncSession, asked: ResourceIn) -> None:
        zones = await self._zones.read(session)
        if not any(asked.fqdn == zone or asked.fqdn.endswith(f".{zone}") for zone in zones):
            why = (
                Phrase(
                    "{name} is in none of the managed zones ({zones})",
                    name=asked.fqdn,
                    zones=", ".join(zones),
                )
                if zones
                else Phrase("there are no managed zones yet")
            )
            raise FieldError("/fqdn", Reason.REQUEST_INVALID, why=why)


async def _lock(session: AsyncSession, name: str, seen: MayMatch) -> Resource:
    resource = await repository.lock(session, name)
    if resource is None:
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The resource {name}", name=name))
    seen.check(Phrase("The resource {name}", name=name), resource.version)
    return resource


def _fields(asked: ResourceIn) -> dict[str, Any]:
    """The columns that an administrator may change."""
    return {
        "fqdn": asked.fqdn,
        "unicode_name": spoken if (spoken := unicode(asked.fqdn)) != asked.fqdn else "",
        "targets": [target.row() for target in asked.targets],
        "owner": asked.owner,
        "idle_seconds": asked.idle_seconds,
        "soft_packets": asked.rekey.soft_packets,
        "soft_bytes": asked.rekey.soft_bytes,
        "soft_seconds": asked.rekey.soft_seconds,
        "suite": asked.suite and asked.suite.value,
    }


async def _find_serving(session: AsyncSession, asked: ResourceIn) -> list[ResourceGateway]:
    gateways = await repository.gateways_named(session, asked.gateways)
    names = dict.fromkeys(asked.gateways)
    serving = [
        _find(gateways, name, Phrase("The gateway {name}", name=name), f"/gateways/{at}")
        for at, name in enumerate(names)
    ]
    for gateway in serving:
        prefixes = [target.prefix for target in asked.targets]
        await have_servers_found(session, gateway, prefixes)
        check_serves(gateway, asked.name, prefixes, asked.suite, "/targets")
    return [
        ResourceGateway(gateway_id=gateway.id, position=position, weight=asked.weights.get(gateway.name))
        for position, gateway in enumerate(serving)
    ]


def _line(action: str, asked: ResourceIn) -> Line:
    told = asked.model_dump(include={"fqdn", "owner"})
    told |= {"targets": " ".join(str(target) for target in asked.targets)}
    weights = {name: f"={weight}" for name, weight in asked.weights.items()}
    gateways = " ".join(name + weights.get(name, "") for name in asked.gateways)
    told |= {"gateways": gateways, "users": " ".join(asked.users)}
    return Line(action, f"resource/{asked.name}", told)


def _conflict_error(asked: ResourceIn, error: IntegrityError) -> CulvertError:
    unique = {
        "uq_resources_name": ("/name", Phrase("The resource {name}", name=asked.name)),
        "uq_resources_fqdn": ("/fqdn", Phrase("A resource that people open as {name}", name=asked.fqdn)),
    }
    return to_field_error(error, unique, Phrase("A policy for {name}", name=asked.name))


async def _make_policies(
    session: AsyncSession, resource: Resource, people: Sequence[str], present: Collection[str] = ()
) -> list[Policy]:
    """A policy for each of the people, except those in `present`, who have one."""
    places: dict[str, int] = {}
    for at, name in enumerate(people):
        if name not in present:
            places.setdefault(name, at)
    users = await repository.users_named(session, list(places))
    return [
        Policy(
            name=f"{name} to {resource.name}",
            user=_find(users, name, Phrase("The user {name}", name=name), f"/users/{at}"),
            resources=[resource],
        )
        for name, at in places.items()
    ]


def _find(rows: dict[str, _Row], name: str, what: Phrase, pointer: str) -> _Row:
    """`what`: the missing row in words."""
    if name not in rows:
        raise FieldError(pointer, Reason.NOT_FOUND, what=what)
    return rows[name]


def _out(resource: Resource, people: Sequence[str]) -> ResourceOut:
    return ResourceOut(
        name=resource.name,
        fqdn=resource.fqdn,
        targets=[Target.model_validate(row) for row in resource.targets],
        gateways=[link.gateway.name for link in resource.gateways],
        weights={link.gateway.name: link.weight for link in resource.gateways if link.weight is not None},
        users=sorted(people),
        owner=resource.owner,
        idle_seconds=resource.idle_seconds,
        rekey=Rekey(
            soft_packets=resource.soft_packets,
            soft_bytes=resource.soft_bytes,
            soft_seconds=resource.soft_seconds,
        ),
        suite=Suite(resource.suite) if resource.suite else None,
        created_at=resource.created_at,
    )
