"""An administrator's credentials: their list, their removal, and those that a new password ends.

A thief who got in with a stolen password could have added another credential, which must not survive a new password.
So a new password or a new authenticator ends all other credentials. The person can name passkeys to keep.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Collection

from culvert_db import (
    Admin,
    AdminIdentity,
    AdminInvitation,
    AdminPasskey,
    AdminSession,
    Database,
)
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.admins import repository
from culvert_service.admins.notices import tell_owners
from culvert_service.admins.schemas import (
    ApiTokenOut,
    CredentialsOut,
    IdentityOut,
    OpenAdminInvitationOut,
    PasskeyOut,
    SessionOut,
)
from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import begin


class OwnCredentials:
    def __init__(self, database: Database, now: Callable[[], datetime.datetime]) -> None:
        self._database = database
        self._now = now

    async def list(self, name: str, session_hash: bytes) -> CredentialsOut:
        now = self._now()
        async with self._database() as session:
            admin = await repository.by_name(session, name)
            if admin is None:
                raise CulvertError(Reason.SESSION_INVALID)
            return CredentialsOut(
                has_password=admin.password_hash is not None,
                recovery_codes=await repository.recovery_codes_left(session, admin.id),
                passkeys=[passkey_out(row) for row in await repository.passkeys(session, admin.id)],
                identities=[_identity_out(row) for row in await repository.identities(session, admin.id)],
                sessions=[
                    session_out(row, session_hash) for row in await repository.sessions_of(session, name, now)
                ],
                tokens=[
                    ApiTokenOut.model_validate(row, from_attributes=True)
                    for row in await repository.tokens_by(session, name, now)
                ],
                invitations=[
                    invitation_out(row)
                    for row in await repository.invitations(session, now)
                    if row.created_by == name
                ],
            )

    async def remove_password(self, by: Actor, name: str) -> None:
        """Also removes authenticator and recovery codes, which are useless without a password.

        Raises CulvertError LAST_SIGN_IN.
        """
        async with begin(self._database, by) as transaction:
            admin = await _lock(transaction.session, name)
            admin.password_hash, admin.secret_ciphertext = None, None
            await repository.forget_recovery_codes(transaction.session, admin.id)
            await check_left(transaction.session, admin)
            await tell_owners(transaction, Line("admin.password.remove", f"admin/{name}"))

    async def remove_recovery_codes(self, by: Actor, name: str) -> None:
        async with begin(self._database, by) as transaction:
            await repository.forget_recovery_codes(
                transaction.session, (await _lock(transaction.session, name)).id
            )
            await tell_owners(transaction, Line("admin.recovery-codes.remove", f"admin/{name}"))

    async def remove_identity(self, by: Actor, name: str, identity_id: str) -> None:
        """Raises CulvertError NOT_FOUND or LAST_SIGN_IN."""
        async with begin(self._database, by) as transaction:
            session = transaction.session
            admin = await _lock(session, name)
            for row in await repository.identities(session, admin.id):
                if _identity_id(row) == identity_id:
                    await session.delete(row)
                    await check_left(session, admin)
                    details: dict[str, Detail] = {"issuer": row.issuer, "subject": row.subject}
                    await tell_owners(transaction, Line("admin.identity.remove", f"admin/{name}", details))
                    return
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The account at the provider"))


async def check_left(session: AsyncSession, admin: Admin) -> None:
    """Check after a removal that a credential is left. The caller has locked the administrator's row.

    Raises CulvertError LAST_SIGN_IN.
    """
    await session.flush()
    if admin.password_hash is not None or await repository.has_passkey_or_identity(session, admin.id):
        return
    raise CulvertError(Reason.LAST_SIGN_IN, who=admin.name)


async def end_others(
    session: AsyncSession, admin: Admin, session_hash: bytes, keep_passkeys: Collection[str]
) -> dict[str, Detail]:
    """End the credentials that must not survive a new password or authenticator. Returns how many of each kind ended.

    API tokens stay valid: the person sees them in the list of credentials.
    """
    counts: dict[str, Detail] = {
        "sessions": await repository.end_other_sessions(session, admin.id, session_hash),
        "recovery_codes": await repository.forget_recovery_codes(session, admin.id),
        "invitations": await repository.forget_invitations_by(session, admin.name),
    }
    # Without its challenge, a passkey whose registration has begun cannot be added.
    await repository.forget_challenges(session, admin.id)
    gone = [
        one for one in await repository.passkeys(session, admin.id) if public_id(one) not in keep_passkeys
    ]
    for passkey in gone:
        await session.delete(passkey)
    return counts | {"passkeys": len(gone)}


def public_id(row: AdminSession | AdminPasskey | AdminInvitation) -> str:
    """An id for a URL path, which is no secret. A passkey's own id may be a kilobyte long."""
    named = row.credential_id if isinstance(row, AdminPasskey) else row.token_hash
    return hashlib.sha256(named).hexdigest()


def session_out(row: AdminSession, current: bytes) -> SessionOut:
    return SessionOut(
        id=public_id(row),
        current=row.token_hash == current,
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        source=row.source,
        user_agent=row.user_agent,
    )


def passkey_out(row: AdminPasskey) -> PasskeyOut:
    return PasskeyOut(
        id=public_id(row), name=row.name, created_at=row.created_at, last_used_at=row.last_used_at
    )


def invitation_out(row: AdminInvitation) -> OpenAdminInvitationOut:
    return OpenAdminInvitationOut(
        id=public_id(row),
        role=row.role.value,
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )


def _identity_out(row: AdminIdentity) -> IdentityOut:
    return IdentityOut(
        id=_identity_id(row), issuer=row.issuer, subject=row.subject, created_at=row.created_at
    )


def _identity_id(row: AdminIdentity) -> str:
    return hashlib.sha256(f"{row.issuer}\n{row.subject}".encode()).hexdigest()


async def _lock(session: AsyncSession, name: str) -> Admin:
    admin = await repository.lock_admin(session, name)
    if admin is None:
        raise CulvertError(Reason.SESSION_INVALID)
    return admin
