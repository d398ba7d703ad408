"""REST: groups, policies, and the access tracer."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal

from culvert_db import Database
from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response, status

from culvert_service.audit.caller import By
from culvert_service.decision.assertions import AssertionOut
from culvert_service.gateways.fleet import Fleet
from culvert_service.identity.schemas import UserName
from culvert_service.policies.access import Access
from culvert_service.policies.assertions import Assertions
from culvert_service.policies.effect import Effects
from culvert_service.policies.repository import Sought
from culvert_service.policies.schemas import (
    AssertionIn,
    ClosedOut,
    EffectOut,
    GroupIn,
    GroupName,
    GroupOut,
    GroupSummaryOut,
    GroupUseOut,
    HistoryOut,
    Members,
    PersonWithAccessOut,
    PolicyIn,
    PolicyName,
    PolicyOut,
    ReachedOut,
    ResourceName,
    TraceOut,
)
from culvert_service.policies.service import Groups, Policies
from culvert_service.policies.tracer import Tracer
from culvert_service.rest.api import Api
from culvert_service.rest.page import BIGINT_MAX, Page, Search
from culvert_service.rest.problem import asked_language
from culvert_service.rest.read_only import AsRead
from culvert_service.rest.request import Moment
from culvert_service.rest.version import IfMatch, MayMatch, tag
from culvert_service.tunnels.enforcement import Enforcement


def routers(
    api: Api,
    database: Database,
    enforcement: Enforcement,
    fleet: Fleet,
    now: Callable[[], datetime.datetime],
    *,
    approval: bool,
) -> list[APIRouter]:
    effects = Effects(database, enforcement, approval=approval)
    return [
        groups_router(api, Groups(database, enforcement, effects)),
        policies_router(api, Policies(database, enforcement, effects)),
        assertions_router(api, Assertions(database)),
        access_router(api, Tracer(database, fleet, now, approval=approval)),
        reach_router(api, Access(database)),
    ]


GroupOrder = Literal["name", "-name", "members", "-members"]
PolicyOrder = Literal["name", "-name", "subject", "-subject", "last_used", "-last_used"]
ReachedOrder = Literal["name", "-name", "fqdn", "-fqdn"]
WithAccessOrder = Literal["name", "-name", "display_name", "-display_name"]


def groups_router(api: Api, groups: Groups) -> APIRouter:
    routes = api.router("/groups", tag="groups")

    @routes.post("", status_code=status.HTTP_201_CREATED, summary="Create a group")
    async def create(by: By, asked: GroupIn, response: Response) -> GroupOut:
        return tag(response, await groups.create(by, asked))

    @routes.get("", summary="List the groups")
    async def list_all(
        page: Annotated[Page, Depends()], q: Search = None, sort: GroupOrder = "name"
    ) -> list[GroupSummaryOut]:
        return await groups.list(page, q, sort)

    @routes.post("/preview", summary="Preview the effect of a group, or of its replacement, without a change")
    async def preview(asked: GroupIn, replaces: GroupName | None = None) -> EffectOut:
        """The preview is refused for the same reasons as the change."""
        return await groups.preview(replaces, asked)

    @routes.get("/{name}", summary="Show a group")
    async def get(name: GroupName, response: Response) -> GroupOut:
        return tag(response, await groups.get(name))

    @routes.get("/{name}/use", summary="Show the effect of deleting a group")
    async def use(name: GroupName) -> GroupUseOut:
        return await groups.use(name)

    @routes.put("/{name}", summary="Change a group's name and members")
    async def replace(
        by: By,
        name: GroupName,
        body: Annotated[AsRead[GroupIn, GroupOut], Body()],
        seen: Annotated[IfMatch, Depends()],
        response: Response,
    ) -> GroupOut:
        """Tunnels that are not permitted any more are closed."""
        await body.check(lambda: groups.get(name), seen)
        return tag(response, await groups.replace(by, name, body.asked, seen))

    @routes.put("/{name}/members", summary="Replace a group's members")
    async def replace_members(
        by: By,
        name: GroupName,
        asked: Members,
        seen: Annotated[IfMatch, Depends()],
        response: Response,
    ) -> GroupOut:
        """Tunnels that are not permitted any more are closed."""
        return tag(response, await groups.replace_members(by, name, asked, seen))

    @routes.put("/{name}/members/{user}", summary="Add a person to a group")
    async def add(
        by: By, name: GroupName, user: UserName, seen: Annotated[MayMatch, Depends()], response: Response
    ) -> GroupSummaryOut:
        return tag(response, await groups.add(by, name, user, seen))

    @routes.delete(
        "/{name}/members/{user}",
        summary="Take a person out of a group and close the tunnels that are not permitted any more",
    )
    async def remove(
        by: By, name: GroupName, user: UserName, seen: Annotated[MayMatch, Depends()]
    ) -> ClosedOut:
        return await groups.remove(by, name, user, seen)

    @routes.delete("/{name}", summary="Delete a group, its policies, and the tunnels that these permitted")
    async def delete(by: By, name: GroupName, seen: Annotated[MayMatch, Depends()]) -> ClosedOut:
        return await groups.delete(by, name, seen)

    _ = (create, list_all, preview, get, use, replace, replace_members, add, remove, delete)
    return routes


def policies_router(api: Api, policies: Policies) -> APIRouter:
    routes = api.router("/policies", tag="policies")

    @routes.post(
        "",
        status_code=status.HTTP_201_CREATED,
        summary="Add a policy, which permits people to reach resources",
    )
    async def create(by: By, asked: PolicyIn, response: Response) -> PolicyOut:
        return tag(response, await policies.create(by, asked))

    @routes.get("", summary="List the policies")
    async def list_all(
        page: Annotated[Page, Depends()],
        q: Search = None,
        group: Annotated[GroupName | None, Query(description="Only policies of this group")] = None,
        resource: Annotated[ResourceName | None, Query(description="Only policies to this resource")] = None,
        unused: Annotated[bool, Query(description="Only policies that nobody has used for 90 days")] = False,
        sort: PolicyOrder = "name",
    ) -> list[PolicyOut]:
        return await policies.list(page, Sought(q, group, resource, unused), sort)

    @routes.post(
        "/preview", summary="Preview the effect of a policy, or of its replacement, without a change"
    )
    async def preview(asked: PolicyIn, replaces: PolicyName | None = None) -> EffectOut:
        """The preview is refused for the same reasons as the change."""
        return await policies.preview(replaces, asked)

    @routes.get("/{name}", summary="Show a policy")
    async def get(name: PolicyName, response: Response) -> PolicyOut:
        return tag(response, await policies.get(name))

    @routes.get("/{name}/use", summary="Show the effect of deleting a policy")
    async def use(name: PolicyName) -> EffectOut:
        return await policies.use(name)

    @routes.put("/{name}", summary="Replace a policy and close the tunnels that are not permitted any more")
    async def replace(
        by: By,
        name: PolicyName,
        body: Annotated[AsRead[PolicyIn, PolicyOut], Body()],
        seen: Annotated[IfMatch, Depends()],
        response: Response,
    ) -> PolicyOut:
        await body.check(lambda: policies.get(name), seen)
        return tag(response, await policies.replace(by, name, body.asked, seen))

    @routes.delete("/{name}", summary="Delete a policy and close the tunnels that only it permitted")
    async def delete(by: By, name: PolicyName, seen: Annotated[MayMatch, Depends()]) -> ClosedOut:
        return await policies.delete(by, name, seen)

    _ = (create, list_all, preview, get, use, replace, delete)
    return routes


def assertions_router(api: Api, assertions: Assertions) -> APIRouter:
    routes = api.router("/assertions", tag="policies")

    @routes.post(
        "",
        status_code=status.HTTP_201_CREATED,
        summary="Add an assertion that later changes of access have to keep true",
    )
    async def create(by: By, asked: AssertionIn) -> AssertionOut:
        return await assertions.create(by, asked)

    @routes.get("", summary="List the assertions, and whether each holds")
    async def list_all() -> list[AssertionOut]:
        return await assertions.list()

    @routes.delete("/{number}", status_code=status.HTTP_204_NO_CONTENT, summary="Delete an assertion")
    async def delete(by: By, number: Annotated[int, Path(ge=1, le=BIGINT_MAX)]) -> None:
        await assertions.delete(by, number)

    _ = (create, list_all, delete)
    return routes


def reach_router(api: Api, access: Access) -> APIRouter:
    routes = api.router(tag="policies")

    @routes.get("/users/{name}/access", summary="List the resources that policies name for a person")
    async def of_person(
        name: UserName, page: Annotated[Page, Depends()], sort: ReachedOrder = "name"
    ) -> list[ReachedOut]:
        """Each with its policies; GET /access decides about a device now."""
        return await access.of_person(name, page, sort)

    @routes.get("/resources/{name}/access", summary="List the people for whom policies name a resource")
    async def to_resource(
        name: ResourceName, page: Annotated[Page, Depends()], sort: WithAccessOrder = "name"
    ) -> list[PersonWithAccessOut]:
        return await access.to_resource(name, page, sort)

    _ = (of_person, to_resource)
    return routes


def access_router(api: Api, tracer: Tracer) -> APIRouter:
    routes = api.router("/access", tag="policies")

    @routes.get("/history", summary="Show since when decisions about the past are possible")
    async def history() -> HistoryOut:
        return HistoryOut(since=await tracer.begin())

    @routes.get("", summary="Show the decision for each device of a person, with its steps")
    async def trace(
        request: Request,
        user: UserName,
        name: Annotated[
            str,
            Query(
                pattern=r"^[^\x00-\x1f\x7f]{1,254}$",
                description="The name as typed by a person: wiki.corp.example; or wiki, if one resource alone begins "
                "with it",
            ),
        ],
        device: uuid.UUID | None = None,
        address: Annotated[
            IPv4Address | IPv6Address | None, Query(description="The device's address; default: its last one")
        ] = None,
        gateway: Annotated[
            str, Query(max_length=63, description="The gateway that the person has chosen, if any")
        ] = "",
        at: Annotated[
            Moment | None,
            Query(
                description="Decide as of this time, with the people, devices, policies, resources and gateways "
                "of then; default: now"
            ),
        ] = None,
    ) -> list[TraceOut]:
        return await tracer.trace(
            user, name, device, str(address) if address else None, gateway, asked_language(request), at
        )

    _ = (trace, history)
    return routes
