"""REST: passkeys, for one's own account and to sign in."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response, status

from culvert_service.admins.endpoints import keep, own_session
from culvert_service.admins.passkeys import Passkeys
from culvert_service.admins.schemas import PasskeyIn, PasskeyOut, PasskeySignInIn, SignedInOut
from culvert_service.admins.service import Admins
from culvert_service.rest.access import CsrfToken


def public_router(admins: Admins, passkeys: Passkeys) -> APIRouter:
    """For who is signed in, of whatever role, and for who has a passkey."""
    routes = APIRouter(prefix="/session", tags=["sign-in"])

    @routes.post("/passkeys/options", summary="Begin to add a passkey to one's own account")
    async def begin(request: Request, csrf: CsrfToken = None) -> dict[str, Any]:
        """For navigator.credentials.create, after PublicKeyCredential.parseCreationOptionsFromJSON."""
        return await passkeys.begin((await own_session(admins, request, csrf)).name)

    @routes.post(
        "/passkeys", status_code=status.HTTP_201_CREATED, summary="Add a passkey to one's own account"
    )
    async def add(asked: PasskeyIn, request: Request, csrf: CsrfToken = None) -> PasskeyOut:
        name = (await own_session(admins, request, csrf)).name
        return await passkeys.add(name, asked.name, asked.credential)

    @routes.get("/passkeys", summary="List one's own passkeys")
    async def list_all(request: Request) -> list[PasskeyOut]:
        return await passkeys.list((await own_session(admins, request, None)).name)

    @routes.delete(
        "/passkeys/{passkey_id}",
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Take a passkey from one's own account",
    )
    async def remove(passkey_id: str, request: Request, csrf: CsrfToken = None) -> None:
        await passkeys.remove((await own_session(admins, request, csrf)).name, passkey_id)

    @routes.post("/passkey/options", summary="Begin to sign in with a passkey")
    async def ask() -> dict[str, Any]:
        """For navigator.credentials.get, after PublicKeyCredential.parseRequestOptionsFromJSON."""
        return await passkeys.ask()

    @routes.post("/passkey", summary="Sign in with a passkey")
    async def sign_in(asked: PasskeySignInIn, response: Response) -> SignedInOut:
        return keep(response, await passkeys.sign_in(asked.credential))

    _ = (begin, add, list_all, remove, ask, sign_in)
    return routes
