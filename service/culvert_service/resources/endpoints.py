"""REST: resources."""

from __future__ import annotations

from typing import Annotated, Literal

from culvert_proto.contract import NAME_PATTERN
from fastapi import APIRouter, Body, Depends, Query, Response, status

from culvert_service.audit.caller import By
from culvert_service.resources.effect import ResourceEffects
from culvert_service.resources.schemas import DeletedOut, PreviewOut, ResourceIn, ResourceOut, UseOut
from culvert_service.resources.service import Resources
from culvert_service.rest.api import Api
from culvert_service.rest.page import Page, Search
from culvert_service.rest.read_only import AsRead
from culvert_service.rest.version import IfMatch, MayMatch, tag

ResourceOrder = Literal["fqdn", "-fqdn", "owner", "-owner", "created", "-created"]


def router(api: Api, resources: Resources, effects: ResourceEffects) -> APIRouter:
    routes = api.router("/resources", tag="resources")

    @routes.post("", status_code=status.HTTP_201_CREATED, summary="Publish a resource")
    async def create(by: By, asked: ResourceIn, response: Response) -> ResourceOut:
        return tag(response, await resources.create(by, asked))

    @routes.get("", summary="List the resources")
    async def list_all(
        page: Annotated[Page, Depends()],
        q: Search = None,
        gateway: Annotated[str | None, Query(max_length=63, pattern=r"^[^\x00]+$")] = None,
        sort: ResourceOrder = "fqdn",
    ) -> list[ResourceOut]:
        return await resources.list(page, q, gateway, sort)

    @routes.post(
        "/preview", summary="Preview the effect of a resource, or of its replacement, without a change"
    )
    async def preview(
        asked: ResourceIn, replaces: Annotated[str | None, Query(pattern=NAME_PATTERN)] = None
    ) -> PreviewOut:
        """The preview is refused for the same reasons as the change, except broken assertions, which it lists."""
        return await effects.preview(replaces, asked)

    @routes.get("/{name}", summary="Show a resource")
    async def get(name: str, response: Response) -> ResourceOut:
        return tag(response, await resources.get(name))

    @routes.get("/{name}/use", summary="Count the dependents of a resource")
    async def use(name: str) -> UseOut:
        return await effects.use(name)

    @routes.put("/{name}", summary="Change a resource and close the tunnels that do not fit it any more")
    async def replace(
        by: By,
        name: str,
        body: Annotated[AsRead[ResourceIn, ResourceOut], Body()],
        seen: Annotated[IfMatch, Depends()],
        response: Response,
    ) -> ResourceOut:
        await body.check(lambda: resources.get(name), seen)
        return tag(response, await resources.replace(by, name, body.asked, seen))

    @routes.delete(
        "/{name}",
        summary="Withdraw a resource, close its tunnels, delete the policies of it alone",
    )
    async def delete(by: By, name: str, seen: Annotated[MayMatch, Depends()]) -> DeletedOut:
        return await resources.delete(by, name, seen)

    _ = (create, list_all, preview, get, use, replace, delete)
    return routes
