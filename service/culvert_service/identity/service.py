"""Who may ask: invitation → enrolment → code → revocation."""

from __future__ import annotations

import datetime
import hashlib
import logging
import secrets
import uuid
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

from culvert_db import Device, DeviceState, Invitation, Sessions, Totp, User
from culvert_proto import CulvertError, Reason
from sqlalchemy.exc import IntegrityError

from culvert_service.identity import repository, totp
from culvert_service.identity.schemas import (
    DeviceOut,
    EnrolmentIn,
    EnrolmentOut,
    InvitationOut,
    RevokedOut,
    UserIn,
    UserOut,
)
from culvert_service.pki import request
from culvert_service.pki.authority import Authority
from culvert_service.pki.master_key import MasterKey
from culvert_service.watch.hub import Hub

_log = logging.getLogger(__name__)

INVITATION_LIFETIME = datetime.timedelta(days=7)
_TOKEN_BYTES = 32

Now = Callable[[], datetime.datetime]
# Closes every tunnel of a device; says how many.
CloseTunnels = Callable[[uuid.UUID], Awaitable[int]]


class Identity:
    def __init__(
        self,
        sessions: Sessions,
        infrastructure: Authority,
        devices: Authority,
        master_key: MasterKey,
        hub: Hub,
        *,
        rest_url: str,
        agent_address: str,
        now: Now,
    ) -> None:
        self._sessions = sessions
        self._infrastructure = infrastructure
        self._devices = devices
        self._master_key = master_key
        self._hub = hub
        self._rest_url = rest_url
        self._agent_address = agent_address
        self._now = now

    async def create_user(self, asked: UserIn) -> UserOut:
        user = User(name=asked.name, email=asked.email)
        try:
            async with self._sessions.begin() as session:
                session.add(user)
                await session.flush()
                await session.refresh(user)
        except IntegrityError:
            raise CulvertError(Reason.ALREADY_EXISTS, what=f"The user {asked.name}") from None
        return UserOut.model_validate(user, from_attributes=True)

    async def users(self) -> list[UserOut]:
        async with self._sessions() as session:
            found = await repository.users(session)
            return [UserOut.model_validate(user, from_attributes=True) for user in found]

    async def invite(self, name: str) -> InvitationOut:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        expires_at = self._now() + INVITATION_LIFETIME
        async with self._sessions.begin() as session:
            user = await repository.user_by_name(session, name)
            if user is None:
                raise CulvertError(Reason.NOT_FOUND, what=f"The user {name}")
            session.add(Invitation(user_id=user.id, token_hash=_hash(token), expires_at=expires_at))
        query = {
            "controller": self._rest_url,
            "token": token,
            "ca": f"sha256:{self._infrastructure.fingerprint.hex()}",
        }
        return InvitationOut(link=f"culvert://enroll?{urlencode(query, safe=':/')}", expires_at=expires_at)

    async def enrol(self, asked: EnrolmentIn) -> EnrolmentOut:
        """Raises CulvertError CSR_INVALID (the invitation stays good) or INVITATION_INVALID."""
        public_key = request.public_key(asked.csr_pem)
        device_id = uuid.uuid4()
        secret = totp.new_secret()
        async with self._sessions.begin() as session:
            token_hash = _hash(asked.token.get_secret_value())
            user = await repository.use_invitation(session, token_hash, self._now())
            if user is None:
                raise CulvertError(Reason.INVITATION_INVALID)
            issued = self._devices.issue_device(public_key, str(device_id))
            session.add(
                Device(
                    id=device_id,
                    user_id=user.id,
                    name=asked.device_name,
                    fingerprint=issued.fingerprint,
                    certificate_serial=issued.serial,
                    certificate_expires_at=issued.expires_at,
                )
            )
            await session.flush()
            sealed = self._master_key.seal(secret, _totp_context(device_id))
            session.add(Totp(device_id=device_id, secret_ciphertext=sealed))
        _log.info("device enrolled", extra={"device": str(device_id), "user": user.name})
        return EnrolmentOut(
            device_id=device_id,
            user=user.name,
            certificate_pem=issued.pem.decode(),
            ca_pem=self._infrastructure.pem.decode(),
            agent_address=self._agent_address,
            totp_uri=totp.uri(secret, user.name, asked.device_name),
        )

    async def devices(self) -> list[DeviceOut]:
        async with self._sessions() as session:
            return [_device_out(device) for device in await repository.devices(session)]

    async def revoke(self, device_id: uuid.UUID, close_tunnels: CloseTunnels) -> RevokedOut:
        """From its return on, no call of the device is served, its tunnels are closed, and its Watch has ended."""
        async with self._sessions.begin() as session:
            device = await repository.revoke(session, device_id, self._now())
            if device is None:
                raise CulvertError(Reason.NOT_FOUND, what=f"The device {device_id}")
        self._hub.end(device_id, CulvertError(Reason.DEVICE_REVOKED, device=device.name))
        closed = await close_tunnels(device_id)
        _log.info("device revoked", extra={"device": str(device_id), "tunnels_closed": closed})
        return RevokedOut(tunnels_closed=closed)

    async def known(self, fingerprint: bytes) -> Device:
        """The device behind a certificate. Raises CulvertError CERTIFICATE_UNKNOWN or DEVICE_REVOKED."""
        async with self._sessions() as session:
            return admitted(await repository.device_by_fingerprint(session, fingerprint), self._now())

    async def prove(self, fingerprint: bytes, code: str) -> datetime.datetime:
        """Until when the code opens tunnels. Raises CulvertError CODE_WRONG, CODE_USED or CODE_LOCKED."""
        now = self._now()
        async with self._sessions.begin() as session:
            device = admitted(await repository.device_by_fingerprint(session, fingerprint), self._now())
            row = await repository.totp_for_update(session, device.id)
            if row is None:
                raise CulvertError(Reason.CERTIFICATE_UNKNOWN)
            guard = totp.Guard(row.last_used_step, row.failures, row.locked_until)
            secret = self._master_key.open(row.secret_ciphertext, _totp_context(device.id))
            verdict = totp.judge(guard, secret, code, now)
            if isinstance(verdict, totp.Proven | totp.Wrong):
                row.last_used_step = verdict.guard.last_used_step
                row.failures = verdict.guard.failures
                row.locked_until = verdict.guard.locked_until
            until = now + totp.WINDOW
            if isinstance(verdict, totp.Proven):
                device.code_valid_until = until
        # Raised after the commit: a wrong guess counts.
        match verdict:
            case totp.Proven():
                self._hub.profile_changed(device.id)
                return until
            case totp.Wrong():
                _log.warning("wrong code", extra={"device": str(device.id)})
                raise CulvertError(Reason.CODE_WRONG)
            case totp.Used():
                raise CulvertError(Reason.CODE_USED)
            case totp.Locked(seconds):
                raise CulvertError(Reason.CODE_LOCKED, seconds=seconds)


def admitted(device: Device | None, now: datetime.datetime) -> Device:
    """Raises CulvertError CERTIFICATE_UNKNOWN or DEVICE_REVOKED.

    A certificate may expire on a connection that was made before: the handshake has not seen that.
    """
    if device is None or device.certificate_expires_at <= now:
        raise CulvertError(Reason.CERTIFICATE_UNKNOWN)
    if device.state is DeviceState.REVOKED:
        raise CulvertError(Reason.DEVICE_REVOKED, device=device.name)
    return device


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _totp_context(device_id: uuid.UUID) -> str:
    return f"totp {device_id}"


def _device_out(device: Device) -> DeviceOut:
    return DeviceOut(
        id=device.id,
        name=device.name,
        user=device.user.name,
        state=device.state.value,
        certificate_expires_at=device.certificate_expires_at,
        code_valid_until=device.code_valid_until,
        created_at=device.created_at,
        revoked_at=device.revoked_at,
    )
