"""REST: one's own password, authenticator, recovery codes and sessions."""

from __future__ import annotations

import hashlib

from fastapi import APIRouter, Request, status

from culvert_service.admins.account import Account
from culvert_service.admins.endpoints import own_session
from culvert_service.admins.schemas import (
    NewAuthenticatorIn,
    NewAuthenticatorOut,
    PasswordIn,
    ProofIn,
    RecoveryCodesOut,
    SessionOut,
)
from culvert_service.admins.service import Admins
from culvert_service.rest.access import COOKIE, CsrfToken


def public_router(admins: Admins, account: Account) -> APIRouter:
    """For who is signed in, of whatever role."""
    routes = APIRouter(prefix="/session", tags=["sign-in"])

    @routes.put("/password", status_code=status.HTTP_204_NO_CONTENT, summary="Change one's own password")
    async def change_password(asked: PasswordIn, request: Request, csrf: CsrfToken = None) -> None:
        """Ends the other sessions of the account."""
        name = (await own_session(admins, request, csrf)).name
        await account.change_password(name, _hash(request), asked)

    @routes.post("/authenticator", summary="Begin to change one's own authenticator")
    async def begin_authenticator(
        asked: ProofIn, request: Request, csrf: CsrfToken = None
    ) -> NewAuthenticatorOut:
        name = (await own_session(admins, request, csrf)).name
        return await account.begin_authenticator(name, asked)

    @routes.put(
        "/authenticator",
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Change one's own authenticator for the one that shows this code",
    )
    async def confirm_authenticator(
        asked: NewAuthenticatorIn, request: Request, csrf: CsrfToken = None
    ) -> None:
        """Ends the other sessions of the account."""
        name = (await own_session(admins, request, csrf)).name
        await account.confirm_authenticator(name, _hash(request), asked)

    @routes.post(
        "/recovery-codes", status_code=status.HTTP_201_CREATED, summary="Make one's own recovery codes anew"
    )
    async def make_recovery_codes(
        asked: ProofIn, request: Request, csrf: CsrfToken = None
    ) -> RecoveryCodesOut:
        name = (await own_session(admins, request, csrf)).name
        return await account.make_recovery_codes(name, asked)

    @routes.get("/sessions", summary="List one's own sessions")
    async def sessions(request: Request) -> list[SessionOut]:
        name = (await own_session(admins, request, None)).name
        return await account.sessions(name, _hash(request))

    @routes.delete(
        "/sessions/{session_id}",
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Sign out another of one's own sessions",
    )
    async def end_session(session_id: str, request: Request, csrf: CsrfToken = None) -> None:
        await account.end_session((await own_session(admins, request, csrf)).name, session_id)

    _ = (sessions, end_session)
    _ = (change_password, begin_authenticator, confirm_authenticator, make_recovery_codes)
    return routes


def _hash(request: Request) -> bytes:
    return hashlib.sha256(request.cookies[COOKIE].encode()).digest()
