"""Access as it is set up: the resources of a person and the people of a resource, each with the policies between them.

Conditions are not considered: the tracer decides about a device now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from culvert_db import Database
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.decision.conditions import Conditions
from culvert_service.policies import repository
from culvert_service.policies.schemas import GrantOut, PersonWithAccessOut, ReachedOut
from culvert_service.rest.page import Page, Sort


class Access:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_person(self, name: str, page: Page, sort: str) -> list[ReachedOut]:
        """The resources that a policy names for the person. Raises CulvertError NOT_FOUND."""
        order = Sort(page, repository.REACHED_ORDERS, sort, repository.BY_RESOURCE_NAME)
        async with self._database() as session:
            user = await repository.user(session, name)
            if user is None:
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The user {name}", name=name))
            resources = await repository.resources_of_person(session, user.id, order)
            grants = await _grants(session, [user.id], [it.id for it in resources])
        return [ReachedOut(resource=it.name, fqdn=it.fqdn, grants=grants[user.id, it.id]) for it in resources]

    async def to_resource(self, name: str, page: Page, sort: str) -> list[PersonWithAccessOut]:
        """The people for whom a policy names the resource. Raises CulvertError NOT_FOUND."""
        order = Sort(page, repository.WITH_ACCESS_ORDERS, sort, repository.BY_LOGIN_NAME)
        async with self._database() as session:
            resource = (await repository.resources_named(session, [name])).get(name)
            if resource is None:
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The resource {name}", name=name))
            people = await repository.people_of_resource(session, resource.id, order)
            grants = await _grants(session, [it.id for it in people], [resource.id])
        return [
            PersonWithAccessOut(
                user=it.name, user_display_name=it.display_name, grants=grants[it.id, resource.id]
            )
            for it in people
        ]


async def _grants(
    session: AsyncSession, people: Collection[int], resources: Collection[int]
) -> defaultdict[tuple[int, int], list[GrantOut]]:
    """By person and resource, in the order of the policies' names."""
    found: defaultdict[tuple[int, int], list[GrantOut]] = defaultdict(list)
    for user, resource, policy, group in await repository.grants(session, people, resources):
        found[user, resource].append(
            GrantOut(
                policy=policy.name,
                enabled=policy.enabled,
                group=group,
                conditions=Conditions.model_validate(policy.conditions),
            )
        )
    return found
