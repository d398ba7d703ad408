"""REST: people, invitations, enrolment, devices."""

from __future__ import annotations

import uuid
from typing import Annotated, Literal

from culvert_db import DeviceState
from fastapi import APIRouter, Body, Depends, Path, Query, Response, status

from culvert_service.audit.caller import By
from culvert_service.identity.authenticators import Authenticators
from culvert_service.identity.invitations import Invitations
from culvert_service.identity.late_renewal import LateRenewal
from culvert_service.identity.people import People
from culvert_service.identity.repository import Sought
from culvert_service.identity.schemas import (
    AuthenticatorOut,
    DeviceOut,
    EnrolmentIn,
    EnrolmentOut,
    FactOut,
    InvitationIn,
    InvitationOut,
    InvitationShowIn,
    InvitationShowOut,
    OpenInvitationOut,
    PersonUseOut,
    RenewalChallengeOut,
    RenewalIn,
    RenewalOut,
    RevokedOut,
    UserChange,
    UserIn,
    UserName,
    UserOut,
)
from culvert_service.identity.service import Identity
from culvert_service.identity.tunnels import DeviceTunnels, Permissions
from culvert_service.rest.api import Api
from culvert_service.rest.page import BIGINT_MAX, Page, Search
from culvert_service.rest.read_only import AsRead
from culvert_service.rest.version import IfMatch, MayMatch, tag

PersonOrder = Literal[
    "name",
    "-name",
    "display_name",
    "-display_name",
    "devices",
    "-devices",
    "last_seen",
    "-last_seen",
    "last_denied",
    "-last_denied",
]
InvitationOrder = Literal[
    "created", "-created", "user", "-user", "invited_by", "-invited_by", "expires", "-expires"
]
DeviceOrder = Literal[
    "created",
    "-created",
    "name",
    "-name",
    "user",
    "-user",
    "state",
    "-state",
    "last_seen",
    "-last_seen",
    "last_denied",
    "-last_denied",
    "code",
    "-code",
]


def router(
    api: Api,
    identity: Identity,
    invitations: Invitations,
    authenticators: Authenticators,
    people: People,
    tunnels: DeviceTunnels,
    permissions: Permissions,
) -> APIRouter:
    """Routes for administrators."""
    routes = api.router(tag="people and devices")

    @routes.post("/users", status_code=status.HTTP_201_CREATED, summary="Add a person")
    async def create_user(by: By, asked: UserIn, response: Response) -> UserOut:
        return tag(response, await people.create(by, asked))

    @routes.get("/users", summary="List the people")
    async def list_users(
        page: Annotated[Page, Depends()], q: Search = None, sort: PersonOrder = "name"
    ) -> list[UserOut]:
        return await people.list(page, q, sort)

    @routes.get("/users/{name}", summary="Show a person")
    async def get_user(name: UserName, response: Response) -> UserOut:
        return tag(response, await people.get(name))

    @routes.put("/users/{name}", summary="Change a person's e-mail address and display name")
    async def change_user(
        by: By,
        name: UserName,
        body: Annotated[AsRead[UserChange, UserOut], Body()],
        seen: Annotated[IfMatch, Depends()],
        response: Response,
    ) -> UserOut:
        await body.check(lambda: people.get(name), seen)
        return tag(response, await people.change(by, name, body.asked, seen))

    @routes.get("/users/{name}/use", summary="Show the effect of deleting a person")
    async def use_of_user(name: UserName) -> PersonUseOut:
        return await people.use(name)

    @routes.delete("/users/{name}", summary="Delete a person with their devices, policies and tunnels")
    async def delete_user(by: By, name: UserName, seen: Annotated[MayMatch, Depends()]) -> RevokedOut:
        return await people.delete(by, name, seen)

    @routes.post(
        "/invitations", status_code=status.HTTP_201_CREATED, summary="Invite a person to enrol a computer"
    )
    async def invite(by: By, asked: InvitationIn) -> InvitationOut:
        return await invitations.invite(by, asked.user)

    @routes.get("/invitations", summary="List the open invitations")
    async def list_invitations(
        page: Annotated[Page, Depends()], q: Search = None, sort: InvitationOrder = "created"
    ) -> list[OpenInvitationOut]:
        return await invitations.list(page, q, sort)

    @routes.delete(
        "/invitations/{number}",
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Withdraw an unused invitation",
    )
    async def withdraw(by: By, number: Annotated[int, Path(ge=1, le=BIGINT_MAX)]) -> None:
        await invitations.withdraw(by, number)

    @routes.get("/devices", summary="List the devices")
    async def list_devices(
        page: Annotated[Page, Depends()],
        q: Search = None,
        user: Annotated[UserName | None, Query(description="Only devices of this person")] = None,
        state: DeviceState | None = None,
        approval_needed: Annotated[
            bool | None, Query(description="Only devices that wait for an approval, or only the others")
        ] = None,
        sort: DeviceOrder = "created",
    ) -> list[DeviceOut]:
        return await identity.devices(page, Sought(q, user, state, approval_needed), sort)

    @routes.get("/devices/facts", summary="List the facts that devices report, with their values")
    async def list_facts() -> list[FactOut]:
        """The 50 most frequent ones, for the conditions of policies."""
        return await identity.facts()

    @routes.get("/devices/{device_id}", summary="Show a device")
    async def get_device(device_id: uuid.UUID, response: Response) -> DeviceOut:
        return tag(response, await identity.device(device_id))

    @routes.post("/devices/{device_id}/approve", summary="Approve a device")
    async def approve(
        by: By, device_id: uuid.UUID, seen: Annotated[MayMatch, Depends()], response: Response
    ) -> DeviceOut:
        return tag(response, await identity.approve(by, device_id, seen))

    @routes.post(
        "/devices/{device_id}/unapprove",
        summary="Withdraw the approval of a device and close the tunnels that need it",
    )
    async def unapprove(
        by: By, device_id: uuid.UUID, seen: Annotated[MayMatch, Depends()], response: Response
    ) -> DeviceOut:
        return tag(response, await identity.unapprove(by, device_id, permissions, seen))

    @routes.post("/devices/{device_id}/revoke", summary="Revoke a device and close its tunnels")
    async def revoke(by: By, device_id: uuid.UUID, seen: Annotated[MayMatch, Depends()]) -> RevokedOut:
        return await identity.revoke(by, device_id, tunnels, seen)

    @routes.post(
        "/devices/{device_id}/authenticator",
        status_code=status.HTTP_201_CREATED,
        summary="Give a device a new authenticator and close the tunnels that depend on the old one's code",
    )
    async def replace_authenticator(by: By, device_id: uuid.UUID) -> AuthenticatorOut:
        """For a person whose authenticator is lost. Hand the answer to that person alone: it makes the device's codes."""
        return await authenticators.replace(by, device_id, permissions)

    _ = (create_user, list_users, get_user, change_user, use_of_user, delete_user)
    _ = (
        invite,
        list_invitations,
        withdraw,
        list_devices,
        list_facts,
        get_device,
        approve,
        unapprove,
        revoke,
        replace_authenticator,
    )
    return routes


def public_router(
    api: Api, identity: Identity, invitations: Invitations, late_renewal: LateRenewal
) -> APIRouter:
    """Routes for a computer with only an invitation, or with an expired certificate."""
    routes = api.router(tag="enrolment")

    @routes.post(
        "/enrolments", status_code=status.HTTP_201_CREATED, summary="Enrol a computer with an invitation"
    )
    async def enrol(by: By, asked: EnrolmentIn) -> EnrolmentOut:
        return await identity.enrol(by, asked)

    @routes.post("/enrolments/invitation", summary="Show whom an invitation is for, and whether it was used")
    async def show_invitation(asked: InvitationShowIn) -> InvitationShowOut:
        """A POST, so that the token is in no address and no log. It changes nothing."""
        return await invitations.show(asked.token.get_secret_value())

    @routes.post(
        "/renewals/challenge",
        status_code=status.HTTP_201_CREATED,
        summary="Get the challenge that the key of an expired certificate has to sign",
    )
    async def challenge() -> RenewalChallengeOut:
        return late_renewal.challenge()

    @routes.post(
        "/renewals",
        status_code=status.HTTP_201_CREATED,
        summary="Renew a certificate that has expired, by its key and a code",
    )
    async def renew(by: By, asked: RenewalIn) -> RenewalOut:
        return await late_renewal.renew(by, asked)

    _ = (enrol, show_invitation, challenge, renew)
    return routes
