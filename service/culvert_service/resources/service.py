"""Resources: created and deleted whole. dns-updater hears of each change from Postgres."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from culvert_db import Policy, Resource, ResourceGateway, Sessions
from culvert_proto import CulvertError, Reason
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit import log as audit
from culvert_service.audit.log import Line
from culvert_service.gateways.record import site_of
from culvert_service.gateways.suite import Suite, check_allowed
from culvert_service.resources import repository
from culvert_service.resources.schemas import DeletedOut, Rekey, ResourceIn, ResourceOut
from culvert_service.resources.target import Target
from culvert_service.rest.page import Page
from culvert_service.rest.version import MayMatch
from culvert_service.watch.hub import Hub

# Closes every tunnel to a resource, in the transaction that deletes it; returns what to do after its commit.
CloseTunnels = Callable[[AsyncSession, int], Awaitable[Callable[[], Awaitable[int]]]]

_Row = TypeVar("_Row")


class Resources:
    def __init__(
        self, sessions: Sessions, hub: Hub, close_tunnels: CloseTunnels, managed_zones: Sequence[str]
    ) -> None:
        self._sessions = sessions
        self._hub = hub
        self._close_tunnels = close_tunnels
        self._zones = tuple(managed_zones)

    async def create(self, asked: ResourceIn) -> tuple[ResourceOut, int]:
        """With its version. Raises CulvertError REQUEST_INVALID, SUITE_LEGACY, NOT_FOUND or ALREADY_EXISTS."""
        if not any(asked.fqdn == zone or asked.fqdn.endswith(f".{zone}") for zone in self._zones):
            zones = ", ".join(self._zones) or "none are configured"
            raise CulvertError(
                Reason.REQUEST_INVALID, why=f"{asked.fqdn} is in none of the managed zones ({zones})"
            )
        try:
            async with self._sessions.begin() as session:
                resource = await self._resource(session, asked)
                session.add(resource)
                session.add_all(await _policies(session, resource, asked.users))
                told = asked.model_dump(include={"fqdn", "owner"})
                told |= {"targets": " ".join(str(target) for target in asked.targets)}
                told |= {"gateways": " ".join(asked.gateways), "users": " ".join(asked.users)}
                audit.tell(session, Line("resource.create", f"resource/{asked.name}", told))
        except IntegrityError:
            what = f"A resource named {asked.name}, or with the name {asked.fqdn}, or a policy for it"
            raise CulvertError(Reason.ALREADY_EXISTS, what=what) from None
        self._hub.profiles_changed()
        return await self.get(asked.name)

    async def list(self, page: Page) -> list[ResourceOut]:
        async with self._sessions() as session:
            found = await repository.resources(session, page.by(str))
            shown = page.cut(found, lambda resource: (resource.fqdn,))
            people = await repository.people_of(session, [resource.id for resource in shown])
        return [_out(resource, people.get(resource.id, [])) for resource in shown]

    async def get(self, name: str) -> tuple[ResourceOut, int]:
        """With its version. Raises CulvertError NOT_FOUND."""
        async with self._sessions() as session:
            resource = await repository.by_name(session, name)
            if resource is None:
                raise CulvertError(Reason.NOT_FOUND, what=f"The resource {name}")
            people = await repository.people_of(session, [resource.id])
        return _out(resource, people.get(resource.id, [])), resource.version

    async def delete(self, name: str, seen: MayMatch) -> DeletedOut:
        async with self._sessions.begin() as session:
            resource = await repository.lock(session, name)
            if resource is None:
                raise CulvertError(Reason.NOT_FOUND, what=f"The resource {name}")
            seen.check(f"The resource {name}", resource.version)
            finish = await self._close_tunnels(session, resource.id)
            await session.delete(resource)
            await session.flush()
            await repository.delete_policies_without_resources(session)
            audit.tell(session, Line("resource.delete", f"resource/{name}", {"fqdn": resource.fqdn}))
        closed = await finish()
        self._hub.profiles_changed()
        return DeletedOut(tunnels_closed=closed)

    async def _resource(self, session: AsyncSession, asked: ResourceIn) -> Resource:
        gateways = await repository.gateways_named(session, asked.gateways)
        serving = [_found(gateways, name, "gateway") for name in dict.fromkeys(asked.gateways)]
        for gateway in serving:
            if asked.suite is not None:
                permitted = [Suite(name) for name in gateway.legacy_suites]
                check_allowed(asked.suite, permitted, f"the gateway {gateway.name}")
            site = site_of(gateway)
            if strange := [it.prefix for it in asked.targets if not site.serves(it.prefix)]:
                why = f"{gateway.name} has no neighbour in {strange[0]} on its LAN, or no pool of its family"
                raise CulvertError(Reason.REQUEST_INVALID, why=why)
        return Resource(
            name=asked.name,
            fqdn=asked.fqdn,
            targets=[target.row() for target in asked.targets],
            owner=asked.owner,
            idle_seconds=asked.idle_seconds,
            soft_packets=asked.rekey.soft_packets,
            soft_bytes=asked.rekey.soft_bytes,
            soft_seconds=asked.rekey.soft_seconds,
            suite=asked.suite and asked.suite.value,
            gateways=[
                ResourceGateway(gateway_id=gateway.id, position=position)
                for position, gateway in enumerate(serving)
            ],
        )


async def _policies(session: AsyncSession, resource: Resource, people: Sequence[str]) -> list[Policy]:
    users = await repository.users_named(session, people)
    return [
        Policy(name=f"{name} to {resource.name}", user=_found(users, name, "user"), resources=[resource])
        for name in dict.fromkeys(people)
    ]


def _found(rows: dict[str, _Row], name: str, kind: str) -> _Row:
    if name not in rows:
        raise CulvertError(Reason.NOT_FOUND, what=f"The {kind} {name}")
    return rows[name]


def _out(resource: Resource, people: Sequence[str]) -> ResourceOut:
    return ResourceOut(
        name=resource.name,
        fqdn=resource.fqdn,
        targets=[Target.model_validate(row) for row in resource.targets],
        gateways=[link.gateway.name for link in resource.gateways],
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
