"""The caller's own account: another password, another authenticator, and recovery codes."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Awaitable, Callable
from typing import TypeVar

from culvert_db import Admin, Database
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from pydantic import BaseModel, ValidationError

from culvert_service.admins import repository
from culvert_service.admins.credentials import end_others, public_id, session_out
from culvert_service.admins.notices import tell_owners
from culvert_service.admins.password import Passwords
from culvert_service.admins.proof import Proof, new_recovery_codes, recovery_hash, totp_context
from culvert_service.admins.schemas import (
    NewAuthenticatorIn,
    NewAuthenticatorOut,
    PasswordIn,
    ProofIn,
    RecoveryCodesOut,
    SessionOut,
)
from culvert_service.admins.service import SignedIn, renew_session
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.refusals import Refusals
from culvert_service.audit.transaction import Transaction, begin
from culvert_service.identity import totp
from culvert_service.pki.master_key import MasterKey, MasterKeyError

# The time that a new authenticator waits for its first code.
_PENDING_LIFETIME = datetime.timedelta(minutes=10)

_Result = TypeVar("_Result")


class _Pending(BaseModel):
    """A new secret until it is confirmed: the client keeps it, encrypted."""

    secret: str
    expires_at: datetime.datetime


class Account:
    """A new password or authenticator ends the account's other credentials (credentials.py) and the old session cookie.

    The methods that take a proof raise CulvertError PROOF_WRONG, SIGN_IN_LOCKED or SIGN_IN_SLOWED.
    """

    def __init__(
        self,
        database: Database,
        refusals: Refusals,
        master_key: MasterKey,
        proof: Proof,
        passwords: Passwords,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._database = database
        self._refusals = refusals
        self._master_key = master_key
        self._proof = proof
        self._passwords = passwords
        self._now = now

    async def prove(self, by: Actor, name: str, session_hash: bytes, asked: ProofIn) -> SignedIn:
        """Also raises CulvertError SESSION_INVALID."""
        now = self._now()

        async def renew(transaction: Transaction, admin: Admin) -> SignedIn:
            renewed = await renew_session(transaction.session, admin, session_hash, now)
            transaction.audit(Line("admin.proof", f"admin/{name}"))
            return renewed

        return await self._run_with_proof(by, name, "admin.proof", asked, renew)

    async def change_password(self, by: Actor, name: str, session_hash: bytes, asked: PasswordIn) -> SignedIn:
        hashed, now = await self._passwords.hash(asked.new_password.get_secret_value()), self._now()

        async def change(transaction: Transaction, admin: Admin) -> SignedIn:
            session = transaction.session
            admin.password_hash = hashed
            ended = await end_others(session, admin, session_hash, asked.keep_passkeys)
            await tell_owners(transaction, Line("admin.password", f"admin/{name}", ended))
            return await renew_session(session, admin, session_hash, now)

        return await self._run_with_proof(by, name, "admin.password", asked, change)

    async def begin_authenticator(
        self, by: Actor, name: str, session_hash: bytes, asked: ProofIn
    ) -> NewAuthenticatorOut:
        """The old authenticator stays until the same session has sent a code of the new authenticator."""
        secret = totp.new_secret()
        pending = _Pending(
            secret=base64.b64encode(secret).decode(), expires_at=self._now() + _PENDING_LIFETIME
        )
        context = _pending_context(name, session_hash)
        sealed = self._master_key.seal(pending.model_dump_json().encode(), context).hex()

        async def begun(transaction: Transaction, admin: Admin) -> None:
            transaction.audit(Line("admin.authenticator.begin", f"admin/{name}"))

        await self._run_with_proof(by, name, "admin.authenticator.begin", asked, begun)
        return NewAuthenticatorOut(totp_uri=totp.uri(secret, name, "administration"), pending=sealed)

    async def confirm_authenticator(
        self, by: Actor, name: str, session_hash: bytes, asked: NewAuthenticatorIn
    ) -> SignedIn:
        """Raises CulvertError CODE_WRONG or REQUEST_INVALID instead."""
        now = self._now()
        try:
            opened = self._master_key.open(
                bytes.fromhex(asked.pending.get_secret_value()), _pending_context(name, session_hash)
            )
            pending = _Pending.model_validate_json(opened)
        except (ValueError, ValidationError, MasterKeyError):
            raise _stale() from None
        if pending.expires_at <= now:
            raise _stale()
        secret = base64.b64decode(pending.secret)
        verdict = totp.judge(totp.GuessRecord(), secret, asked.code.get_secret_value(), now)
        async with begin(self._database, by) as transaction:
            admin = await repository.lock_admin(transaction.session, name)
            if admin is None or not isinstance(verdict, totp.Proven):
                raise CulvertError(Reason.CODE_WRONG)
            admin.secret_ciphertext = self._master_key.seal(secret, totp_context(name))
            admin.last_used_step = verdict.record.last_used_step
            ended = await end_others(transaction.session, admin, session_hash, asked.keep_passkeys)
            await tell_owners(transaction, Line("admin.authenticator", f"admin/{name}", ended))
            return await renew_session(transaction.session, admin, session_hash, now)

    async def make_recovery_codes(self, by: Actor, name: str, asked: ProofIn) -> RecoveryCodesOut:
        """Create recovery codes, which replace all old ones."""
        codes = new_recovery_codes()

        async def change(transaction: Transaction, admin: Admin) -> None:
            session = transaction.session
            await repository.forget_recovery_codes(session, admin.id)
            repository.add_recovery_codes(session, admin.id, map(recovery_hash, codes))
            await tell_owners(transaction, Line("admin.recovery-codes", f"admin/{name}"))

        await self._run_with_proof(by, name, "admin.recovery-codes", asked, change)
        return RecoveryCodesOut(codes=codes)

    async def sessions(self, name: str, session_hash: bytes) -> list[SessionOut]:
        """Newest first."""
        async with self._database() as session:
            rows = await repository.sessions_of(session, name, self._now())
        return [session_out(row, session_hash) for row in rows]

    async def end_session(self, by: Actor, name: str, session_id: str) -> None:
        """Raises CulvertError NOT_FOUND."""
        async with begin(self._database, by) as transaction:
            for row in await repository.sessions_of(transaction.session, name, self._now()):
                if public_id(row) == session_id:
                    await transaction.session.delete(row)
                    transaction.audit(Line("admin.session.end", f"admin/{name}"))
                    return
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The session"))

    async def _run_with_proof(
        self,
        by: Actor,
        name: str,
        action: str,
        asked: ProofIn,
        change: Callable[[Transaction, Admin], Awaitable[_Result]],
    ) -> _Result:
        try:
            return await self._proof.run_with_proof(by, name, asked.password, asked.code, change)
        except CulvertError as error:
            # The form of a signed-in administrator has no name that could be wrong.
            is_wrong = error.reason is Reason.SIGN_IN_WRONG
            refusal = CulvertError(Reason.PROOF_WRONG) if is_wrong else error
            await self._refusals.of_stranger(by, Line(action, f"admin/{name}"), refusal)
            raise refusal from None


def _pending_context(name: str, session_hash: bytes) -> str:
    return f"new authenticator of {name} in {session_hash.hex()}"


def _stale() -> CulvertError:
    why = Phrase("this authenticator was not begun here, or more than ten minutes ago")
    return CulvertError(Reason.REQUEST_INVALID, why=why)
