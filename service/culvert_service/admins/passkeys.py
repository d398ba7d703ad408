"""Passkeys of administrators: added to an account by who is signed in, and then enough to sign in."""

from __future__ import annotations

import datetime
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from culvert_db import Admin, AdminChallenge, AdminPasskey, Database
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.admins import repository
from culvert_service.admins.credentials import check_left, passkey_out, public_id
from culvert_service.admins.notices import tell_owners
from culvert_service.admins.schemas import PasskeyOut
from culvert_service.admins.service import SignedIn, open_session, renew_session
from culvert_service.admins.webauthn_party import Credential, Party, challenge_of, id_of
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.refusals import Refusals
from culvert_service.audit.transaction import Transaction, begin

# Section 15.1 of WebAuthn recommends five to ten minutes where the user is verified.
_CHALLENGE_LIFETIME = datetime.timedelta(minutes=5)
_CHALLENGE_BYTES = 32
_PASSKEYS_MAX = 20


class Passkeys:
    def __init__(
        self, database: Database, refusals: Refusals, url: str, now: Callable[[], datetime.datetime]
    ) -> None:
        self._database = database
        self._refusals = refusals
        self._party = Party.at(url)
        self._now = now

    async def begin(self, name: str) -> dict[str, Any]:
        """Give the options with which a browser makes a passkey for the administrator."""
        async with self._database.begin() as session:
            admin = await _admin(session, name)
            challenge = self._challenge(session, admin.id)
            known = [one.credential_id for one in await repository.passkeys(session, admin.id)]
        return self._party.creation(challenge, _handle(admin.id), name, known)

    async def add(self, by: Actor, name: str, label: str, credential: Credential) -> PasskeyOut:
        """Raises CulvertError PASSKEY_REFUSED, or REQUEST_INVALID when there are enough of them."""
        try:
            async with begin(self._database, by) as transaction:
                session = transaction.session
                admin = await _admin(session, name)
                challenge = await self._use_challenge(session, credential, admin.id)
                made = self._party.verify_registration(credential, challenge)
                if made is None:
                    raise CulvertError(Reason.PASSKEY_REFUSED)
                if len(await repository.passkeys(session, admin.id)) >= _PASSKEYS_MAX:
                    why = Phrase("an account has {number} passkeys at most", number=_PASSKEYS_MAX)
                    raise CulvertError(Reason.REQUEST_INVALID, why=why)
                row = AdminPasskey(
                    credential_id=made.credential_id,
                    admin_id=admin.id,
                    name=label,
                    public_key=made.public_key,
                    sign_count=made.sign_count,
                )
                session.add(row)
                await session.flush()
                await session.refresh(row)
                line = Line("admin.passkey.add", f"admin/{name}", {"passkey": label})
                await tell_owners(transaction, line)
        except IntegrityError:
            raise CulvertError(Reason.PASSKEY_REFUSED) from None
        return passkey_out(row)

    async def list(self, name: str) -> list[PasskeyOut]:
        async with self._database() as session:
            return [
                passkey_out(row)
                for row in await repository.passkeys(session, (await _admin(session, name)).id)
            ]

    async def remove(self, by: Actor, name: str, passkey_id: str) -> None:
        """Raises CulvertError NOT_FOUND or LAST_SIGN_IN."""
        async with begin(self._database, by) as transaction:
            session = transaction.session
            admin = await repository.lock_admin(session, name)
            for row in await repository.passkeys(session, admin.id) if admin else ():
                if admin and public_id(row) == passkey_id:
                    await session.delete(row)
                    await check_left(session, admin)
                    line = Line("admin.passkey.remove", f"admin/{name}", {"passkey": row.name})
                    await tell_owners(transaction, line)
                    return
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The passkey"))

    async def ask(self) -> dict[str, Any]:
        """Give the options with which a browser signs in."""
        async with self._database.begin() as session:
            return self._party.request(self._challenge(session, None))

    async def sign_in(self, by: Actor, credential: Credential, user_agent: str | None) -> SignedIn:
        """Raises CulvertError PASSKEY_REFUSED, which does not say what was wrong."""
        now = self._now()

        async def opened(transaction: Transaction, admin: Admin, passkey: AdminPasskey) -> SignedIn:
            await repository.forget_expired(transaction.session, now)
            line = Line("admin.sign-in", f"admin/{admin.name}", {"passkey": passkey.name})
            return await open_session(transaction, admin, now, line, user_agent)

        try:
            return await self._verify(by, credential, opened)
        except CulvertError as error:
            await self._refusals.of_stranger(by, Line("admin.sign-in", "admin/unknown"), error)
            raise

    async def prove(self, by: Actor, name: str, session_hash: bytes, credential: Credential) -> SignedIn:
        """Raises CulvertError SESSION_INVALID, or PASSKEY_REFUSED (also for a passkey of another account)."""
        now = self._now()

        async def renewed(transaction: Transaction, admin: Admin, passkey: AdminPasskey) -> SignedIn:
            if admin.name != name:
                raise CulvertError(Reason.PASSKEY_REFUSED)
            found = await renew_session(transaction.session, admin, session_hash, now)
            transaction.audit(Line("admin.proof", f"admin/{name}", {"passkey": passkey.name}))
            return found

        try:
            return await self._verify(by, credential, renewed)
        except CulvertError as error:
            await self._refusals.of_stranger(by, Line("admin.proof", f"admin/{name}"), error)
            raise

    async def _verify(
        self,
        by: Actor,
        credential: Credential,
        then: Callable[[Transaction, Admin, AdminPasskey], Awaitable[SignedIn]],
    ) -> SignedIn:
        """Verify the credential. Returns the result of `then`, which runs in the transaction that records the use."""
        now = self._now()
        # In a transaction of its own: a challenge is used up even if the answer is refused.
        async with self._database.begin() as session:
            challenge = await self._use_challenge(session, credential, None)
        async with begin(self._database, by) as transaction:
            found = await repository.passkey_for_update(transaction.session, id_of(credential))
            if found is None:
                raise CulvertError(Reason.PASSKEY_REFUSED)
            passkey, admin = found
            count = self._party.verify_signature(
                credential, challenge, passkey.public_key, passkey.sign_count
            )
            if count is None:
                raise CulvertError(Reason.PASSKEY_REFUSED)
            passkey.sign_count, passkey.last_used_at = count, now
            return await then(transaction, admin, passkey)

    def _challenge(self, session: AsyncSession, admin_id: int | None) -> bytes:
        challenge = secrets.token_bytes(_CHALLENGE_BYTES)
        expires_at = self._now() + _CHALLENGE_LIFETIME
        session.add(AdminChallenge(hash=_hash(challenge), admin_id=admin_id, expires_at=expires_at))
        return challenge

    async def _use_challenge(
        self, session: AsyncSession, credential: Credential, admin_id: int | None
    ) -> bytes:
        """The challenge, which is used up. Raises CulvertError PASSKEY_REFUSED."""
        challenge, now = challenge_of(credential), self._now()
        for found, whose, expires_at in await repository.use_challenges(session, _hash(challenge), now):
            if found == _hash(challenge) and whose == admin_id and expires_at > now:
                return challenge
        raise CulvertError(Reason.PASSKEY_REFUSED)


async def _admin(session: AsyncSession, name: str) -> Admin:
    """Raises CulvertError SESSION_INVALID: who is signed in has just been deleted."""
    admin = await repository.by_name(session, name)
    if admin is None:
        raise CulvertError(Reason.SESSION_INVALID)
    return admin


def _handle(admin_id: int) -> bytes:
    return admin_id.to_bytes(8, "big")


def _hash(challenge: bytes) -> bytes:
    return hashlib.sha256(challenge).digest()
