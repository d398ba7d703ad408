"""REST: passkeys, for one's own account and to sign in."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request, Response, status

from culvert_service.admins.access import Access, own_session
from culvert_service.admins.endpoints import PROVEN, keep
from culvert_service.admins.passkeys import Passkeys
from culvert_service.admins.schemas import PasskeyIn, PasskeyOut, PasskeySignInIn, SignedInOut
from culvert_service.audit.caller import By
from culvert_service.rest.api import Api


def public_router(api: Api, access: Access, passkeys: Passkeys) -> APIRouter:
    """For a signed-in person of any role, and for a person who signs in with a passkey."""
    routes = api.router("/session", tag="sign-in")
    own = [Depends(access.own_session)]
    proven = [*own, *PROVEN]

    @routes.post(
        "/passkeys/options", dependencies=proven, summary="Begin to add a passkey to one's own account"
    )
    async def begin(request: Request) -> dict[str, Any]:
        """For navigator.credentials.create, after PublicKeyCredential.parseCreationOptionsFromJSON."""
        return await passkeys.begin(own_session(request).name)

    @routes.post(
        "/passkeys",
        dependencies=proven,
        status_code=status.HTTP_201_CREATED,
        summary="Add a passkey to one's own account",
    )
    async def add(by: By, asked: PasskeyIn, request: Request) -> PasskeyOut:
        return await passkeys.add(by, own_session(request).name, asked.name, asked.credential)

    @routes.get("/passkeys", dependencies=own, summary="List one's own passkeys")
    async def list_all(request: Request) -> list[PasskeyOut]:
        return await passkeys.list(own_session(request).name)

    @routes.delete(
        "/passkeys/{passkey_id}",
        dependencies=proven,
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Remove a passkey from one's own account",
    )
    async def remove(by: By, passkey_id: str, request: Request) -> None:
        await passkeys.remove(by, own_session(request).name, passkey_id)

    @routes.post("/passkey/options", summary="Begin to sign in, or to give a proof, with a passkey")
    async def ask() -> dict[str, Any]:
        """For navigator.credentials.get, after PublicKeyCredential.parseRequestOptionsFromJSON."""
        return await passkeys.ask()

    @routes.post("/passkey", summary="Sign in with a passkey")
    async def sign_in(by: By, asked: PasskeySignInIn, request: Request, response: Response) -> SignedInOut:
        return keep(response, await passkeys.sign_in(by, asked.credential, request.headers.get("User-Agent")))

    @routes.post(
        "/proof/passkey",
        dependencies=own,
        summary="Give a fresh proof with a passkey of the account",
    )
    async def prove(by: By, asked: PasskeySignInIn, request: Request, response: Response) -> SignedInOut:
        session = own_session(request)
        return keep(response, await passkeys.prove(by, session.name, session.hash, asked.credential))

    _ = (begin, add, list_all, remove, ask, sign_in, prove)
    return routes
