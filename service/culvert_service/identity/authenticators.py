"""Devices' authenticators: checks codes, uses recovery codes up, and replaces lost authenticators."""

from __future__ import annotations

import datetime
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from culvert_db import ActorKind, Database, Device, DeviceState, Totp
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import Transaction, begin
from culvert_service.identity import recovery, repository, totp
from culvert_service.identity.authenticator import issue, secret_context
from culvert_service.identity.denials import Denials
from culvert_service.identity.schemas import AuthenticatorOut
from culvert_service.identity.service import check_certificate
from culvert_service.identity.tunnels import Permissions
from culvert_service.pki.master_key import MasterKey
from culvert_service.watch.hub import ProfileChanged
from culvert_service.watch.pushes import Pushes

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CodeProof:
    """`until`: the time until which the code opens tunnels. `recovery_codes_left`: set if a recovery code was used."""

    until: datetime.datetime
    recovery_codes_left: int | None


class Authenticators:
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        pushes: Pushes,
        denials: Denials,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._pushes = pushes
        self._denials = denials
        self._now = now

    async def prove(self, by: Actor, fingerprint: bytes, code: str) -> CodeProof:
        """Raises CulvertError CODE_WRONG, CODE_USED or CODE_LOCKED."""
        now = self._now()
        async with begin(self._database, by) as transaction:
            found = await repository.device_by_fingerprint(transaction.session, fingerprint)
            device = check_certificate(found, fingerprint, now)
            judged = await self.judge(transaction, fingerprint, device, code, "device.prove")
        # Raised after the commit, because a wrong guess must be counted.
        if isinstance(judged, CulvertError):
            raise judged
        await self._pushes.tell_elsewhere(device.id, ProfileChanged())
        return judged

    async def judge(
        self, transaction: Transaction, fingerprint: bytes, device: Device, code: str, action: str
    ) -> CodeProof | CulvertError:
        """Check a code in the caller's transaction, which must commit even after a refusal. `device` has its user loaded.

        `action`: for the audit log. The refusals are CODE_WRONG, CODE_USED and CODE_LOCKED. Raises CulvertError
        CERTIFICATE_UNKNOWN.
        """
        now = self._now()
        row = await repository.totp_for_update(transaction.session, device.id)
        if row is None:
            raise CulvertError(Reason.CERTIFICATE_UNKNOWN)
        told: dict[str, Detail] = {"user": device.user.name}
        verdict, left = await self._judge(transaction.session, row, code, now)
        if left is not None:
            told["recovery_codes_left"] = left
        if isinstance(verdict, totp.Proven | totp.Wrong):
            row.last_used_step, row.drift_steps = verdict.record.last_used_step, verdict.record.drift
            row.failures, row.locked_until = verdict.record.failures, verdict.record.locked_until
        until = now + totp.WINDOW
        if isinstance(verdict, totp.Proven):
            device.code_proven_at, device.code_valid_until = now, until
        why = _refusal(verdict)
        actor = transaction.actor.with_name(ActorKind.DEVICE, device.id)
        line: Line | None = Line(action, f"device/{device.id}", told, actor=actor)
        if why is not None:
            line = self._denials.line(fingerprint, line, why)
        if line is not None:
            transaction.audit(line)
        return why or CodeProof(until, left)

    async def replace(self, by: Actor, device_id: uuid.UUID, permissions: Permissions) -> AuthenticatorOut:
        """Replace secret and recovery codes. The proven code ends, and tunnels that needed it are closed.

        Raises CulvertError NOT_FOUND or DEVICE_REVOKED.
        """
        async with begin(self._database, by) as transaction:
            device = await repository.device(transaction.session, device_id)
            if device is None:
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The device {name}", name=device_id))
            if device.state is DeviceState.REVOKED:
                raise CulvertError(Reason.DEVICE_REVOKED, device=device.name)
            await repository.forget_authenticator(transaction.session, device_id)
            made = issue(transaction.session, self._master_key, device)
            transaction.audit(Line("device.authenticator", f"device/{device_id}"))
        await self._pushes.tell_elsewhere(device_id, ProfileChanged())
        await permissions.enforce()
        _log.info("authenticator replaced", extra={"device": str(device_id)})
        return made

    async def _judge(
        self, session: AsyncSession, row: Totp, code: str, now: datetime.datetime
    ) -> tuple[totp.Verdict, int | None]:
        """The verdict, and the number of recovery codes left if one was used."""
        record = totp.GuessRecord(row.last_used_step, row.failures, row.locked_until, row.drift_steps)
        code_hash = recovery.hash_of(code)
        if code_hash is None:
            secret = self._master_key.open(row.secret_ciphertext, secret_context(row.device_id))
            return totp.judge(record, secret, code, now), None
        if locked := record.find_lock(now):
            return locked, None
        if not await repository.spend_recovery_code(session, row.device_id, code_hash):
            return totp.Wrong(record.with_failure(now)), None
        return totp.Proven(record.with_success()), await repository.recovery_codes_left(
            session, row.device_id
        )


def _refusal(verdict: totp.Verdict) -> CulvertError | None:
    match verdict:
        case totp.Proven():
            return None
        case totp.Wrong():
            return CulvertError(Reason.CODE_WRONG)
        case totp.Used():
            return CulvertError(Reason.CODE_USED)
        case totp.Locked(seconds):
            return CulvertError(Reason.CODE_LOCKED, seconds=seconds)
