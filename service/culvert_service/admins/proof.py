"""Proof that somebody is the administrator of a name: password and code, or a recovery code in the place of the code."""

from __future__ import annotations

import base64
import datetime
import hashlib
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from culvert_db import Admin, Database
from culvert_proto import CulvertError, Reason
from pydantic import SecretStr

from culvert_service.admins import repository
from culvert_service.admins.guesses import CODE_GUESSES, FORGET, GUESSES, Codes, Guesses
from culvert_service.admins.notices import tell_owners
from culvert_service.admins.password import Passwords
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import Transaction, begin
from culvert_service.identity import totp
from culvert_service.pki.master_key import MasterKey
from culvert_service.rest.prefix import limit_keys

_log = logging.getLogger(__name__)

# 80 bits in the alphabet of RFC 4648 section 6: nobody finds one by its hash.
RECOVERY_CODE = re.compile(r"[a-z2-7]{8}-[a-z2-7]{8}")
_RECOVERY_CODES, _RECOVERY_BYTES = 10, 10

# A /48 has the guesses of four /64.
_WIDE = 4

_Result = TypeVar("_Result")


class Proof:
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        passwords: Passwords,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._passwords = passwords
        self._now = now

    async def run_with_proof(
        self,
        by: Actor,
        name: str,
        password: SecretStr,
        code: SecretStr,
        then: Callable[[Transaction, Admin], Awaitable[_Result]],
        known: str | None = None,
    ) -> _Result:
        """Check password and code. Returns the result of `then`, which runs in the transaction that uses the code up.

        `known` is the id of a browser in which the administrator has signed in before. The guesses of a known browser
        are counted separately, so that a stranger at the same address does not lock it.

        Raises CulvertError SIGN_IN_WRONG, which does not say what was wrong, SIGN_IN_LOCKED, or after the right password
        SIGN_IN_SLOWED.
        """
        prefixes = limit_keys(by.source)
        keys = prefixes if known is None else (f"browser {known}",)
        stored = await self._count_guess(name, keys)
        if not await self._passwords.match(stored, password.get_secret_value()):
            raise CulvertError(Reason.SIGN_IN_WRONG)
        # `raise wrong` stands outside: the transaction that counts the wrong code must commit.
        async with begin(self._database, by) as transaction:
            admin = await repository.lock_admin(transaction.session, name)
            if admin is None or admin.password_hash != stored or _is_overdue(admin, self._now()):
                raise CulvertError(Reason.SIGN_IN_WRONG)
            wrong = await self._use(transaction, admin, code.get_secret_value(), prefixes[0])
            if wrong is None:
                await repository.forget_guesses(transaction.session, name, keys)
                return await then(transaction, admin)
        raise wrong

    async def _count_guess(self, name: str, keys: Sequence[str]) -> str | None:
        """The password's hash. Counted before it is judged: guesses at once do not get more than those one by one."""
        now = self._now()
        async with self._database.begin() as session:
            for key, at_once in zip(keys, (GUESSES, GUESSES * _WIDE), strict=False):
                row = await repository.lock_guesses(session, name, key, now)
                old = row.last_at <= now - FORGET
                guesses = Guesses() if old else Guesses(row.failures, row.locked_until)
                if seconds := guesses.locked_seconds(now):
                    raise CulvertError(Reason.SIGN_IN_LOCKED, seconds=seconds)
                counted = guesses.with_failure(now, at_once)
                row.failures, row.locked_until, row.last_at = counted.failures, counted.locked_until, now
            return await repository.password_hash(session, name)

    async def _use(
        self, transaction: Transaction, admin: Admin, code: str, source: str
    ) -> CulvertError | None:
        """Check the code and use it up. Returns the refusal, or None when the code is right."""
        now = self._now()
        if RECOVERY_CODE.fullmatch(spelled := code.strip().lower()):
            # A recovery code has 80 bits and cannot be guessed: the delay of codes neither applies to it nor grows by it.
            if await repository.use_recovery_code(transaction.session, admin.id, recovery_hash(spelled)):
                return None
            await repository.note_wrong_code(transaction.session, admin.id, source, now)
            return CulvertError(Reason.SIGN_IN_WRONG)
        if admin.secret_ciphertext is None:
            return CulvertError(Reason.SIGN_IN_WRONG)
        if seconds := _codes(admin, now).locked_seconds(now):
            return CulvertError(Reason.SIGN_IN_SLOWED, who=admin.name, seconds=seconds)
        secret = self._master_key.open(admin.secret_ciphertext, totp_context(admin.name))
        match totp.judge(totp.GuessRecord(admin.last_used_step), secret, code, now):
            case totp.Proven(record):
                admin.last_used_step = record.last_used_step
                admin.code_failures, admin.code_failed_at, admin.code_locked_until = 0, None, None
                return None
            case totp.Wrong():
                return await self._wrong(transaction, admin, source)
            case _:
                # A code that was used already is right, and so does not count as a guess.
                return CulvertError(Reason.SIGN_IN_WRONG)

    async def _wrong(self, transaction: Transaction, admin: Admin, source: str) -> CulvertError:
        now = self._now()
        codes = _codes(admin, now).with_failure(now)
        admin.code_failures, admin.code_failed_at = codes.failures, now
        admin.code_locked_until = codes.locked_until
        await repository.note_wrong_code(transaction.session, admin.id, source, now)
        if codes.failures == CODE_GUESSES:
            _log.warning(
                "wrong codes after the right password", extra={"admin": admin.name, "source": source}
            )
            details = {"codes": codes.failures, "from": source}
            await tell_owners(transaction, Line("admin.wrong-codes", f"admin/{admin.name}", details))
        return CulvertError(Reason.SIGN_IN_WRONG)


def _codes(admin: Admin, now: datetime.datetime) -> Codes:
    if admin.code_failed_at is None or admin.code_failed_at <= now - FORGET:
        return Codes()
    return Codes(admin.code_failures, admin.code_locked_until)


def _is_overdue(admin: Admin, now: datetime.datetime) -> bool:
    """Whether the account's invitation has expired before anybody signed in to the account."""
    return admin.confirmed_at is None and (admin.setup_until is None or admin.setup_until <= now)


def new_recovery_codes() -> list[str]:
    return [_recovery_code() for _ in range(_RECOVERY_CODES)]


def _recovery_code() -> str:
    text = base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower()
    return f"{text[:8]}-{text[8:]}"


def recovery_hash(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()


def totp_context(name: str) -> str:
    return f"admin {name}"
