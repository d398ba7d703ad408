"""REST: signing in and out, administrators, API tokens."""

from __future__ import annotations

import datetime
import uuid
from typing import Annotated, Literal

from culvert_db import ActorKind
from fastapi import APIRouter, Depends, Request, Response, status

from culvert_service.admins.access import COOKIE, Access, fresh_proof, own_session
from culvert_service.admins.permission import SCOPES
from culvert_service.admins.schemas import (
    AdminInvitationIn,
    AdminInvitationOut,
    AdminOut,
    ApiTokenIn,
    ApiTokenOut,
    NewApiTokenOut,
    OpenAdminInvitationOut,
    RoleIn,
    SetupIn,
    SetupOut,
    SetupShowIn,
    SetupShowOut,
    SignedInOut,
    SignInIn,
)
from culvert_service.admins.service import SESSION_LIFETIME, Admins, SignedIn
from culvert_service.audit.caller import By
from culvert_service.rest.api import Api
from culvert_service.rest.page import Page, Search
from culvert_service.rest.version import IfMatch, MayMatch, tag

# Marks a browser in which an administrator has signed in: wrong guesses by a stranger at the same address do not lock it.
KNOWN_COOKIE = "__Host-culvert-known"
KNOWN_LIFETIME = datetime.timedelta(days=180)
# For changes that would outlast a stolen session, such as a new credential.
PROVEN = (Depends(fresh_proof),)


def public_router(api: Api, admins: Admins, access: Access) -> APIRouter:
    """For callers with an invitation, a password, or a session of any role."""
    routes = api.router(tag="sign-in")
    own = [Depends(access.own_session)]

    @routes.post("/setup", status_code=status.HTTP_201_CREATED, summary="Make an administrator's account")
    async def set_up(by: By, asked: SetupIn) -> SetupOut:
        return await admins.set_up(by, asked)

    @routes.post("/setup/invitation", summary="Show which role an administrator's invitation gives")
    async def show_invitation(asked: SetupShowIn) -> SetupShowOut:
        """A POST, so that the token is in no address and no log. It changes nothing."""
        return await admins.show_invitation(asked.token.get_secret_value())

    @routes.post("/session", summary="Sign in with password and code")
    async def sign_in(by: By, asked: SignInIn, request: Request, response: Response) -> SignedInOut:
        by = by.with_name(ActorKind.ADMIN, asked.name)
        known = admins.find_browser(asked.name, request.cookies.get(KNOWN_COOKIE))
        signed_in = await admins.sign_in(by, asked, request.headers.get("User-Agent"), known)
        shown = keep(response, signed_in)
        if known is None:
            response.set_cookie(
                KNOWN_COOKIE,
                admins.remember_browser(asked.name),
                max_age=int(KNOWN_LIFETIME.total_seconds()),
                secure=True,
                httponly=True,
                samesite="strict",
            )
        return shown

    @routes.get("/session", dependencies=own, summary="Show who is signed in")
    async def show(request: Request) -> SignedInOut:
        return own_session(request).signed_in

    @routes.delete("/session", dependencies=own, status_code=status.HTTP_204_NO_CONTENT, summary="Sign out")
    async def sign_out(by: By, request: Request, response: Response) -> None:
        await admins.sign_out(by, request.cookies[COOKIE])
        response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict")

    _ = (set_up, show_invitation, sign_in, show, sign_out)
    return routes


def router(api: Api, admins: Admins) -> APIRouter:
    routes = api.router(tag="administrators")

    @routes.post(
        "/admins/invitations",
        dependencies=PROVEN,
        status_code=status.HTTP_201_CREATED,
        summary="Invite an administrator",
    )
    async def invite(by: By, asked: AdminInvitationIn) -> AdminInvitationOut:
        return await admins.invite(by, asked.role)

    @routes.get("/admins/invitations", summary="List the administrators' unused invitations")
    async def list_invitations(page: Annotated[Page, Depends()]) -> list[OpenAdminInvitationOut]:
        return await admins.invitations(page)

    @routes.delete(
        "/admins/invitations/{invitation_id}",
        dependencies=PROVEN,
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Withdraw an administrator's invitation",
    )
    async def withdraw(by: By, invitation_id: str) -> None:
        await admins.withdraw(by, invitation_id)

    @routes.get("/admins", summary="List the administrators")
    async def list_admins(
        page: Annotated[Page, Depends()],
        q: Search = None,
        sort: Literal["name", "-name", "role", "-role", "confirmed", "-confirmed"] = "name",
    ) -> list[AdminOut]:
        """`confirmed`: the first sign-in."""
        return await admins.list(page, q, sort)

    @routes.get("/admins/{name}", summary="Show an administrator")
    async def get(name: str, response: Response) -> AdminOut:
        return tag(response, await admins.get(name))

    @routes.put("/admins/{name}/role", dependencies=PROVEN, summary="Give an administrator another role")
    async def change_role(
        by: By, name: str, asked: RoleIn, seen: Annotated[IfMatch, Depends()], response: Response
    ) -> AdminOut:
        """Open sessions have the new role from their next call."""
        changed = await admins.change_role(by, name, asked.role, seen, keep_tokens=asked.keep_tokens)
        return tag(response, changed)

    @routes.delete(
        "/admins/{name}",
        dependencies=PROVEN,
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Delete an administrator and end their sessions",
    )
    async def delete(
        by: By, name: str, seen: Annotated[MayMatch, Depends()], keep_tokens: bool = False
    ) -> None:
        """Also ends the API tokens that the administrator made, unless `keep_tokens`, and always the invitations."""
        await admins.delete(by, name, seen, keep_tokens=keep_tokens)

    @routes.post(
        "/tokens", dependencies=PROVEN, status_code=status.HTTP_201_CREATED, summary="Make an API token"
    )
    async def create_token(by: By, asked: ApiTokenIn) -> NewApiTokenOut:
        return await admins.create_token(by, asked)

    @routes.get("/tokens", summary="List the API tokens")
    async def list_tokens(
        page: Annotated[Page, Depends()],
        q: Search = None,
        sort: Literal["name", "-name", "created_by", "-created_by", "expires", "-expires"] = "name",
    ) -> list[ApiTokenOut]:
        return await admins.tokens(page, q, sort)

    @routes.get("/tokens/scopes", summary="List the scopes of API tokens")
    async def list_scopes() -> list[str]:
        return list(SCOPES)

    @routes.delete(
        "/tokens/{token_id}",
        dependencies=PROVEN,
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Revoke an API token",
    )
    async def delete_token(by: By, token_id: uuid.UUID) -> None:
        await admins.delete_token(by, token_id)

    _ = (list_invitations, withdraw)
    _ = (invite, list_admins, get, change_role, delete, create_token, list_tokens, list_scopes, delete_token)
    return routes


def keep(response: Response, signed_in: SignedIn) -> SignedInOut:
    """Set the session's cookie."""
    response.set_cookie(
        COOKIE,
        signed_in.token,
        max_age=int(SESSION_LIFETIME.total_seconds()),
        secure=True,
        httponly=True,
        samesite="strict",
    )
    return signed_in.answer
