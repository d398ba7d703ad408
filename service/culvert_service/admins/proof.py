"""Proof that somebody is the administrator of a name: password and code, or a recovery code in the place of the code."""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from culvert_db import Admin, Sessions
from culvert_proto import CulvertError, Reason
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.admins import repository
from culvert_service.admins.guesses import FORGET, Guesses
from culvert_service.admins.password import Passwords
from culvert_service.audit.log import acting
from culvert_service.identity import totp
from culvert_service.pki.master_key import MasterKey

# 80 bits in the alphabet of RFC 4648 section 6: nobody finds one by its hash.
RECOVERY_CODE = re.compile(r"[a-z2-7]{8}-[a-z2-7]{8}")

_Result = TypeVar("_Result")


class Proof:
    def __init__(
        self,
        sessions: Sessions,
        master_key: MasterKey,
        passwords: Passwords,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._sessions = sessions
        self._master_key = master_key
        self._passwords = passwords
        self._now = now

    async def given(
        self,
        name: str,
        password: SecretStr,
        code: SecretStr,
        then: Callable[[AsyncSession, Admin], Awaitable[_Result]],
    ) -> _Result:
        """What `then` gives, in the transaction that uses the code up.

        Raises CulvertError SIGN_IN_WRONG, which does not say what was wrong, or SIGN_IN_LOCKED.
        """
        source = acting.get().source or ""
        stored = await self._counted(name, source)
        if not await self._passwords.match(stored, password.get_secret_value()):
            raise CulvertError(Reason.SIGN_IN_WRONG)
        async with self._sessions.begin() as session:
            admin = await repository.locked(session, name)
            if admin is None or admin.password_hash != stored:
                raise CulvertError(Reason.SIGN_IN_WRONG)
            await self._use(session, admin, code.get_secret_value())
            await repository.forget_guesses(session, name, source)
            return await then(session, admin)

    async def _counted(self, name: str, source: str) -> str | None:
        """The password's hash. Counted before it is judged: guesses at once do not get more than those one by one."""
        now = self._now()
        async with self._sessions.begin() as session:
            row = await repository.lock_guesses(session, name, source, now)
            old = row.last_at <= now - FORGET
            guesses = Guesses() if old else Guesses(row.failures, row.locked_until)
            if seconds := guesses.locked_seconds(now):
                raise CulvertError(Reason.SIGN_IN_LOCKED, seconds=seconds)
            counted = guesses.failed(now)
            row.failures, row.locked_until, row.last_at = counted.failures, counted.locked_until, now
            return await repository.password_hash(session, name)

    async def _use(self, session: AsyncSession, admin: Admin, code: str) -> None:
        if RECOVERY_CODE.fullmatch(spelled := code.strip().lower()):
            if await repository.use_recovery_code(session, admin.id, recovery_hash(spelled)):
                return
            raise CulvertError(Reason.SIGN_IN_WRONG)
        if admin.secret_ciphertext is None:
            raise CulvertError(Reason.SIGN_IN_WRONG)
        secret = self._master_key.open(admin.secret_ciphertext, totp_context(admin.name))
        verdict = totp.judge(totp.Guard(admin.last_used_step), secret, code, self._now())
        if not isinstance(verdict, totp.Proven):
            raise CulvertError(Reason.SIGN_IN_WRONG)
        admin.last_used_step = verdict.guard.last_used_step


def recovery_hash(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()


def totp_context(name: str) -> str:
    return f"admin {name}"
