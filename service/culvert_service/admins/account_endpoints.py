"""REST: one's own password, authenticator, recovery codes and sessions, and the proof that others need."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response, status

from culvert_service.admins.account import Account
from culvert_service.admins.endpoints import keep
from culvert_service.admins.notices import Notices
from culvert_service.admins.schemas import (
    NewAuthenticatorIn,
    NewAuthenticatorOut,
    NoticeOut,
    PasswordIn,
    ProofIn,
    RecoveryCodesOut,
    SessionOut,
    SignedInOut,
)
from culvert_service.rest.access import Access, own_session


def public_router(access: Access, account: Account, notices: Notices) -> APIRouter:
    """For a person who is signed in, of whatever role. What takes a ProofIn needs no fresh proof besides."""
    routes = APIRouter(prefix="/session", tags=["sign-in"], dependencies=[Depends(access.own_session)])

    @routes.post("/proof", summary="Prove once more to be the administrator, with password and code")
    async def prove(asked: ProofIn, request: Request, response: Response) -> SignedInOut:
        """Security settings ask for a proof that is not older than five minutes; signing in is one.

        The session gets another cookie and another `csrf_token`: a copy of the old cookie ends here.
        """
        own = own_session(request)
        return keep(response, await account.prove(own.name, own.hash, asked))

    @routes.put("/password", status_code=status.HTTP_204_NO_CONTENT, summary="Change one's own password")
    async def change_password(asked: PasswordIn, request: Request) -> None:
        """Ends the other sessions of the account."""
        own = own_session(request)
        await account.change_password(own.name, own.hash, asked)

    @routes.post("/authenticator", summary="Begin to change one's own authenticator")
    async def begin_authenticator(asked: ProofIn, request: Request) -> NewAuthenticatorOut:
        own = own_session(request)
        return await account.begin_authenticator(own.name, own.hash, asked)

    @routes.put(
        "/authenticator",
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Change one's own authenticator for the one that shows this code",
    )
    async def confirm_authenticator(asked: NewAuthenticatorIn, request: Request) -> None:
        """Ends the other sessions of the account."""
        own = own_session(request)
        await account.confirm_authenticator(own.name, own.hash, asked)

    @routes.post(
        "/recovery-codes", status_code=status.HTTP_201_CREATED, summary="Make one's own recovery codes anew"
    )
    async def make_recovery_codes(asked: ProofIn, request: Request) -> RecoveryCodesOut:
        return await account.make_recovery_codes(own_session(request).name, asked)

    @routes.get("/sessions", summary="List one's own sessions")
    async def sessions(request: Request) -> list[SessionOut]:
        own = own_session(request)
        return await account.sessions(own.name, own.hash)

    @routes.delete(
        "/sessions/{session_id}",
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Sign out another of one's own sessions",
    )
    async def end_session(session_id: str, request: Request) -> None:
        await account.end_session(own_session(request).name, session_id)

    @routes.get("/notices", summary="List what one should know and has not dismissed")
    async def list_notices(request: Request) -> list[NoticeOut]:
        """Newest first, a hundred at most; for 90 days. To owners: what others do that touches who can get in."""
        return await notices.list(own_session(request).name)

    @routes.delete(
        "/notices/{notice_id}",
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Dismiss a notice and all before it",
    )
    async def dismiss(notice_id: Annotated[int, Path(ge=0, lt=1 << 63)], request: Request) -> None:
        await notices.dismiss(own_session(request).name, notice_id)

    _ = (prove, sessions, end_session, list_notices, dismiss)
    _ = (change_password, begin_authenticator, confirm_authenticator, make_recovery_codes)
    return routes
