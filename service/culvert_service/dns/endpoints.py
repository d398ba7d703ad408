"""REST: zones, and the state of published names."""

from __future__ import annotations

from typing import Annotated

from culvert_db import DnsState
from fastapi import APIRouter, Body, Depends, Response, status

from culvert_service.audit.caller import By
from culvert_service.dns.schemas import (
    DnsRecordOut,
    ManagedZoneChange,
    ManagedZoneOut,
    ZoneChange,
    ZoneIn,
    ZoneOut,
)
from culvert_service.dns.service import Dns
from culvert_service.rest.api import Api
from culvert_service.rest.page import Page
from culvert_service.rest.read_only import AsRead
from culvert_service.rest.version import IfMatch, MayMatch, tag


def router(api: Api, dns: Dns) -> APIRouter:
    routes = api.router("/dns", tag="dns")

    @routes.get("", summary="List the published names and their state")
    async def list_records(
        page: Annotated[Page, Depends()], zone: str | None = None, state: DnsState | None = None
    ) -> list[DnsRecordOut]:
        return await dns.records(zone, state, page)

    @routes.post(
        "/zones", status_code=status.HTTP_201_CREATED, summary="Publish to a zone, or to a view of one"
    )
    async def create(by: By, asked: ZoneIn, response: Response) -> ZoneOut:
        return tag(response, await dns.create(by, asked))

    @routes.get("/zones", summary="List the zones and their state")
    async def list_zones(page: Annotated[Page, Depends()]) -> list[ZoneOut]:
        return await dns.zones(page)

    @routes.get("/zones/{name}", summary="Show a zone")
    async def get(name: str, response: Response) -> ZoneOut:
        return tag(response, await dns.get(name))

    @routes.put("/zones/{name}", summary="Change a zone's server, key, TTL or resources")
    async def change(
        by: By,
        name: str,
        body: Annotated[AsRead[ZoneChange, ZoneOut], Body()],
        seen: Annotated[IfMatch, Depends()],
        response: Response,
    ) -> ZoneOut:
        await body.check(lambda: dns.get(name), seen)
        return tag(response, await dns.change(by, name, body.asked, seen))

    @routes.delete(
        "/zones/{name}",
        status_code=status.HTTP_202_ACCEPTED,
        summary="Withdraw a zone's records and forget it",
    )
    async def delete(
        by: By, name: str, seen: Annotated[MayMatch, Depends()], keep_records: bool = False
    ) -> None:
        """With `keep_records` the zone is deleted at once and its records stay, for a server that is gone."""
        await dns.delete(by, name, seen, keep_records=keep_records)

    @routes.post("/zones/{name}/check", status_code=status.HTTP_202_ACCEPTED, summary="Check a zone now")
    async def check(by: By, name: str) -> None:
        await dns.check(by, name)

    @routes.get("/managed-zones", summary="List the zones in whose names devices open tunnels")
    async def list_managed(page: Annotated[Page, Depends()]) -> list[ManagedZoneOut]:
        return await dns.managed_zones(page)

    @routes.put("/managed-zones/{name}", summary="Choose whether a denied name shows a page with the reason")
    async def change_managed(by: By, name: str, asked: ManagedZoneChange) -> ManagedZoneOut:
        return await dns.choose_denial_page(by, name, shown=asked.denial_page)

    _ = (list_records, create, list_zones, get, change, delete, check, list_managed, change_managed)
    return routes
