"""Creates a device's authenticator and recovery codes: shown once, stored encrypted and hashed."""

from __future__ import annotations

import uuid

from culvert_db import Device, RecoveryCode, Totp
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.identity import recovery, totp
from culvert_service.identity.schemas import AuthenticatorOut
from culvert_service.pki.master_key import MasterKey


def issue(session: AsyncSession, master_key: MasterKey, device: Device) -> AuthenticatorOut:
    """The device must have no authenticator."""
    secret, codes = totp.new_secret(), recovery.new_codes()
    session.add(
        Totp(device_id=device.id, secret_ciphertext=master_key.seal(secret, secret_context(device.id)))
    )
    for code in codes:
        code_hash = recovery.hash_of(code)
        assert code_hash is not None
        session.add(RecoveryCode(device_id=device.id, code_hash=code_hash))
    return AuthenticatorOut(totp_uri=totp.uri(secret, device.user.name, device.name), recovery_codes=codes)


def secret_context(device_id: uuid.UUID) -> str:
    """The context of the stored secret, for the master key."""
    return f"totp {device_id}"
