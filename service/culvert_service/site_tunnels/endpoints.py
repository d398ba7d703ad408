"""REST: tunnels between gateways."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends, Response, status

from culvert_service.audit.caller import By
from culvert_service.rest.api import Api
from culvert_service.rest.page import Page, Search
from culvert_service.rest.read_only import AsRead
from culvert_service.rest.version import IfMatch, MayMatch, tag
from culvert_service.site_tunnels.schemas import SiteTunnelChange, SiteTunnelIn, SiteTunnelOut
from culvert_service.site_tunnels.service import SiteTunnels


def router(api: Api, tunnels: SiteTunnels) -> APIRouter:
    routes = api.router("/site-tunnels", tag="site tunnels")

    @routes.post(
        "",
        status_code=status.HTTP_201_CREATED,
        summary="Add a site tunnel, which joins the networks behind two gateways",
    )
    async def create(by: By, asked: SiteTunnelIn, response: Response) -> SiteTunnelOut:
        return tag(response, await tunnels.create(by, asked))

    @routes.get("", summary="List the tunnels between gateways")
    async def list_all(
        page: Annotated[Page, Depends()],
        q: Search = None,
        sort: Literal["name", "-name", "state", "-state", "keyed", "-keyed"] = "name",
    ) -> list[SiteTunnelOut]:
        return await tunnels.list(page, q, sort)

    @routes.get("/{name}", summary="Show a tunnel between gateways")
    async def get(name: str, response: Response) -> SiteTunnelOut:
        return tag(response, await tunnels.get(name))

    @routes.put("/{name}", summary="Change a site tunnel's targets, resources, owner, suite or limits")
    async def change(
        by: By,
        name: str,
        body: Annotated[AsRead[SiteTunnelChange, SiteTunnelOut], Body()],
        seen: Annotated[IfMatch, Depends()],
        response: Response,
    ) -> SiteTunnelOut:
        await body.check(lambda: tunnels.get(name), seen)
        return tag(response, await tunnels.change(by, name, body.asked, seen))

    @routes.delete(
        "/{name}", status_code=status.HTTP_204_NO_CONTENT, summary="Close a tunnel between gateways"
    )
    async def delete(by: By, name: str, seen: Annotated[MayMatch, Depends()]) -> None:
        await tunnels.delete(by, name, seen)

    _ = (create, list_all, get, change, delete)
    return routes
