"""REST: enrolments of gateways, and the calls of computers that join."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, status

from culvert_service.admins.access import fresh_proof
from culvert_service.audit.caller import By
from culvert_service.joining.reports import Reports
from culvert_service.joining.schemas import (
    FreePoolsOut,
    GatewayCertificateOut,
    GatewayEnrolmentIn,
    GatewayEnrolmentOut,
    GatewayLeaveIn,
    GatewayLeaveOut,
    GatewayLinkOut,
    GatewayRenewalIn,
    GatewayReportIn,
    GatewayReportOut,
    GatewayStateOut,
    JoinCheckIn,
    JoinCheckOut,
    JoinIn,
    JoinOut,
)
from culvert_service.joining.service import Joining
from culvert_service.rest.api import Api
from culvert_service.rest.page import BIGINT_MAX, Page

Number = Annotated[int, Path(ge=1, le=BIGINT_MAX)]


def router(api: Api, joining: Joining) -> APIRouter:
    """Routes for administrators."""
    routes = api.router("/gateway-enrolments", tag="gateways")

    @routes.post(
        "",
        status_code=status.HTTP_201_CREATED,
        summary="Make the link with which a computer joins as a gateway",
        dependencies=[Depends(fresh_proof)],
    )
    async def enrol(by: By, asked: GatewayEnrolmentIn) -> GatewayLinkOut:
        """The link works for one computer, within an hour. An earlier link for the gateway no longer works."""
        return await joining.enrol(by, asked)

    @routes.get("", summary="List the enrolments of gateways")
    async def list_all(
        page: Annotated[Page, Depends()],
        waiting: Annotated[bool, Query(description="Only those whose link still works")] = False,
    ) -> list[GatewayEnrolmentOut]:
        return await joining.list(page, waiting=waiting)

    @routes.get("/free-pools", summary="Suggest address pools that no known network overlaps")
    async def free_pools() -> FreePoolsOut:
        """The same ones again until a gateway, a link, a resource or a site tunnel has addresses of them."""
        return await joining.free_pools()

    @routes.get("/{number}", summary="Show an enrolment of a gateway")
    async def get(number: Number) -> GatewayEnrolmentOut:
        return await joining.get(number)

    @routes.delete(
        "/{number}", status_code=status.HTTP_204_NO_CONTENT, summary="Withdraw the link of an enrolment"
    )
    async def withdraw(by: By, number: Number) -> None:
        await joining.withdraw(by, number)

    _ = (enrol, list_all, free_pools, get, withdraw)
    return routes


def public_router(api: Api, joining: Joining, reports: Reports) -> APIRouter:
    """Routes for a computer with only a link, or with a gateway's key."""
    routes = api.router(tag="enrolment")

    @routes.post("/gateway-joins/check", summary="Check a gateway's link, and whether its facts fit")
    async def check(by: By, asked: JoinCheckIn) -> JoinCheckOut:
        """Nothing changes, and the link stays good."""
        return await joining.check(by, asked)

    @routes.post("/gateway-joins", status_code=status.HTTP_201_CREATED, summary="Join as a gateway")
    async def join(by: By, asked: JoinIn) -> JoinOut:
        return await joining.join(by, asked)

    @routes.post(
        "/gateway-renewals", status_code=status.HTTP_201_CREATED, summary="Renew a gateway's certificate"
    )
    async def renew(by: By, asked: GatewayRenewalIn) -> GatewayCertificateOut:
        return await joining.renew(by, asked)

    @routes.post("/gateway-states", summary="Tell a gateway whether it is online")
    async def state(by: By, asked: GatewayRenewalIn) -> GatewayStateOut:
        """By the key that the gateway has joined with."""
        return await joining.state(by, asked)

    @routes.post("/gateway-leaves", summary="Leave: forget a gateway's key")
    async def leave(by: By, asked: GatewayLeaveIn) -> GatewayLeaveOut:
        return await joining.leave(by, asked)

    @routes.post(
        "/gateway-reports", summary="Report the MAC addresses of a gateway's neighbours, and its address"
    )
    async def report(by: By, asked: GatewayReportIn) -> GatewayReportOut:
        """By the key that the gateway has joined with. The answer names the neighbours to find."""
        return await reports.take(by, asked)

    _ = (check, join, renew, state, leave, report)
    return routes
