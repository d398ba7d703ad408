"""REST: resources."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response, status

from culvert_service.resources.schemas import DeletedOut, ResourceIn, ResourceOut
from culvert_service.resources.service import Resources
from culvert_service.rest.page import Page
from culvert_service.rest.version import IfMatch, MayMatch, tagged


def router(resources: Resources) -> APIRouter:
    routes = APIRouter(prefix="/resources", tags=["resources"])

    @routes.post("", status_code=status.HTTP_201_CREATED, summary="Publish a resource")
    async def create(asked: ResourceIn, response: Response) -> ResourceOut:
        return tagged(response, await resources.create(asked))

    @routes.get("", summary="List the resources")
    async def list_all(page: Annotated[Page, Depends()]) -> list[ResourceOut]:
        return await resources.list(page)

    @routes.get("/{name}", summary="Show a resource")
    async def get(name: str, response: Response) -> ResourceOut:
        return tagged(response, await resources.get(name))

    @routes.put("/{name}", summary="Change a resource and close the tunnels that do not fit it any more")
    async def replace(
        name: str, asked: ResourceIn, seen: Annotated[IfMatch, Depends()], response: Response
    ) -> ResourceOut:
        return tagged(response, await resources.replace(name, asked, seen))

    @routes.delete(
        "/{name}",
        summary="Withdraw a resource, close its tunnels, delete the policies that lead nowhere else",
    )
    async def delete(name: str, seen: Annotated[MayMatch, Depends()]) -> DeletedOut:
        return await resources.delete(name, seen)

    _ = (create, list_all, get, replace, delete)
    return routes
