"""REST: one's own credentials, sessions and notices, and the fresh proof that other routes require."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response, status

from culvert_service.admins.access import Access, own_session
from culvert_service.admins.account import Account
from culvert_service.admins.credentials import OwnCredentials
from culvert_service.admins.endpoints import PROVEN, keep
from culvert_service.admins.notices import Notices
from culvert_service.admins.schemas import (
    CredentialsOut,
    NewAuthenticatorIn,
    NewAuthenticatorOut,
    NoticeOut,
    PasswordIn,
    ProofIn,
    RecoveryCodesOut,
    SessionOut,
    SignedInOut,
)
from culvert_service.audit.caller import By
from culvert_service.rest.api import Api


def public_router(
    api: Api, access: Access, account: Account, credentials: OwnCredentials, notices: Notices
) -> APIRouter:
    """For a signed-in person of any role. A route that takes a ProofIn does not also require a fresh proof."""
    routes = api.router("/session", tag="sign-in", checks=[access.own_session])

    @routes.post("/proof", summary="Give a fresh proof with password and code")
    async def prove(by: By, asked: ProofIn, request: Request, response: Response) -> SignedInOut:
        """Changes of security settings require a proof of the last five minutes. Signing in counts as a proof.

        The session gets a new cookie and a new `csrf_token`; the old cookie is no longer valid.
        """
        own = own_session(request)
        return keep(response, await account.prove(by, own.name, own.hash, asked))

    @routes.get("/credentials", summary="List the credentials of one's own account")
    async def list_credentials(request: Request) -> CredentialsOut:
        own = own_session(request)
        return await credentials.list(own.name, own.hash)

    @routes.put("/password", summary="Change one's own password")
    async def change_password(by: By, asked: PasswordIn, request: Request, response: Response) -> SignedInOut:
        """Ends the account's other sessions, recovery codes and open invitations, and each passkey that is not kept.

        API tokens stay valid: GET /session/credentials lists them. The session gets a new cookie and `csrf_token`.
        """
        own = own_session(request)
        return keep(response, await account.change_password(by, own.name, own.hash, asked))

    @routes.delete(
        "/password",
        dependencies=PROVEN,
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Remove one's own password, authenticator and recovery codes",
    )
    async def remove_password(by: By, request: Request) -> None:
        """For an account that can still sign in with a passkey or through a provider."""
        await credentials.remove_password(by, own_session(request).name)

    @routes.delete(
        "/recovery-codes",
        dependencies=PROVEN,
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Remove one's own recovery codes",
    )
    async def remove_recovery_codes(by: By, request: Request) -> None:
        await credentials.remove_recovery_codes(by, own_session(request).name)

    @routes.delete(
        "/identities/{identity_id}",
        dependencies=PROVEN,
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Remove a provider's account from one's own account",
    )
    async def remove_identity(by: By, identity_id: str, request: Request) -> None:
        await credentials.remove_identity(by, own_session(request).name, identity_id)

    @routes.post("/authenticator", summary="Begin to change one's own authenticator")
    async def begin_authenticator(by: By, asked: ProofIn, request: Request) -> NewAuthenticatorOut:
        own = own_session(request)
        return await account.begin_authenticator(by, own.name, own.hash, asked)

    @routes.put(
        "/authenticator", summary="Replace one's own authenticator by the new one that shows this code"
    )
    async def confirm_authenticator(
        by: By, asked: NewAuthenticatorIn, request: Request, response: Response
    ) -> SignedInOut:
        """Ends the same credentials as a new password. The session gets a new cookie and `csrf_token`."""
        own = own_session(request)
        return keep(response, await account.confirm_authenticator(by, own.name, own.hash, asked))

    @routes.post(
        "/recovery-codes", status_code=status.HTTP_201_CREATED, summary="Replace one's own recovery codes"
    )
    async def make_recovery_codes(by: By, asked: ProofIn, request: Request) -> RecoveryCodesOut:
        return await account.make_recovery_codes(by, own_session(request).name, asked)

    @routes.get("/sessions", summary="List one's own sessions")
    async def sessions(request: Request) -> list[SessionOut]:
        own = own_session(request)
        return await account.sessions(own.name, own.hash)

    @routes.delete(
        "/sessions/{session_id}",
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Sign out another of one's own sessions",
    )
    async def end_session(by: By, session_id: str, request: Request) -> None:
        await account.end_session(by, own_session(request).name, session_id)

    @routes.get("/notices", summary="List one's own notices that are not dismissed")
    async def list_notices(request: Request) -> list[NoticeOut]:
        """The newest hundred notices of the last 90 days. Owners are told when another account changes who can sign in."""
        return await notices.list(own_session(request).name)

    @routes.delete(
        "/notices/{notice_id}",
        status_code=status.HTTP_204_NO_CONTENT,
        summary="Dismiss a notice and all before it",
    )
    async def dismiss(notice_id: Annotated[int, Path(ge=0, lt=1 << 63)], request: Request) -> None:
        await notices.dismiss(own_session(request).name, notice_id)

    _ = (list_credentials, remove_password, remove_recovery_codes, remove_identity)
    _ = (prove, sessions, end_session, list_notices, dismiss)
    _ = (change_password, begin_authenticator, confirm_authenticator, make_recovery_codes)
    return routes
