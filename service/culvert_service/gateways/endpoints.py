"""REST: gateways."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response, status

from culvert_service.gateways.schemas import BundleOut, EntriesOut, GatewayIn, GatewayOut
from culvert_service.gateways.service import Gateways
from culvert_service.rest.page import Page
from culvert_service.rest.version import tagged


def router(gateways: Gateways) -> APIRouter:
    routes = APIRouter(prefix="/gateways", tags=["gateways"])

    @routes.post("", status_code=status.HTTP_201_CREATED, summary="Register a gateway")
    async def create(asked: GatewayIn) -> GatewayOut:
        return await gateways.create(asked)

    @routes.get("", summary="List the gateways")
    async def list_all(page: Annotated[Page, Depends()]) -> list[GatewayOut]:
        return await gateways.list(page)

    @routes.get("/{name}", summary="Show a gateway")
    async def get(name: str, response: Response) -> GatewayOut:
        return tagged(response, await gateways.get(name))

    @routes.post("/{name}/bundle", summary="Make a gateway's certificate, key and KEK")
    async def bundle(name: str) -> BundleOut:
        return await gateways.bundle(name)

    @routes.get("/{name}/entries", summary="Read a gateway's tables")
    async def entries(name: str) -> EntriesOut:
        return await gateways.entries(name)

    _ = (create, list_all, get, bundle, entries)
    return routes
