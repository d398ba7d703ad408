"""Identities: people, their devices, invitations to enrol a device, and each device's TOTP secret."""

from __future__ import annotations

import datetime
import enum
import uuid
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ColumnElement, ForeignKey, or_, text
from sqlalchemy.dialects.postgresql import INET
from sqlalchemy.orm import Mapped, mapped_column, relationship

from culvert_db.base import Base, CreatedAt, Number, Version, state_column


class User(Base):
    __tablename__ = "users"

    id: Mapped[Number]
    # The login name.
    name: Mapped[str] = mapped_column(unique=True)
    display_name: Mapped[str | None]
    email: Mapped[str]
    version: Mapped[Version]
    created_at: Mapped[CreatedAt]


class DeviceState(enum.StrEnum):
    """PENDING: enrolled with an invitation, but not approved by an administrator. Policies may require approval."""

    PENDING = "pending"
    APPROVED = "approved"
    REVOKED = "revoked"


class Device(Base):
    """An enrolled computer, identified by the SHA-256 fingerprint of its certificate's DER."""

    __tablename__ = "devices"
    __table_args__ = (
        CheckConstraint("octet_length(fingerprint) = 32", name="fingerprint_is_sha256"),
        CheckConstraint("octet_length(next_fingerprint) = 32", name="next_fingerprint_is_sha256"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    state: Mapped[DeviceState] = mapped_column(state_column(DeviceState), default=DeviceState.PENDING)
    version: Mapped[Version]
    fingerprint: Mapped[bytes] = mapped_column(unique=True)
    certificate_serial: Mapped[str] = mapped_column(unique=True)
    certificate_expires_at: Mapped[datetime.datetime]
    # The newest certificate issued to the device, until the device first uses it for Watch.
    next_fingerprint: Mapped[bytes | None] = mapped_column(unique=True)
    next_serial: Mapped[str | None]
    next_expires_at: Mapped[datetime.datetime | None]
    code_proven_at: Mapped[datetime.datetime | None]
    code_valid_until: Mapped[datetime.datetime | None]
    created_at: Mapped[CreatedAt]
    revoked_at: Mapped[datetime.datetime | None]
    # The `holder` of the controller that has its stream, and the end of this report unless it is repeated.
    watched_by: Mapped[str | None]
    watched_until: Mapped[datetime.datetime | None]
    # The last time at which it watched; its address and version at the start of that Watch; its own report (posture).
    last_seen_at: Mapped[datetime.datetime | None]
    last_seen_address: Mapped[str | None] = mapped_column(INET)
    client_version: Mapped[str | None]
    posture: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default=text("'{}'"))

    user: Mapped[User] = relationship(lazy="raise")

    @classmethod
    def shows(cls, fingerprint: ColumnElement[bytes] | bytes) -> ColumnElement[bool]:
        """The device with this certificate, as its present or its next one."""
        return or_(cls.fingerprint == fingerprint, cls.next_fingerprint == fingerprint)

    def expires_at(self, fingerprint: bytes) -> datetime.datetime:
        """The expiry of this certificate, the present or the next one."""
        if fingerprint == self.next_fingerprint and self.next_expires_at is not None:
            return self.next_expires_at
        return self.certificate_expires_at


class Invitation(Base):
    """A one-time right to enrol a device. Only the token's SHA-256 is stored.

    For some minutes the enrolled device may repeat its request, because the answer may have been lost.
    """

    __tablename__ = "invitations"

    id: Mapped[Number]
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    token_hash: Mapped[bytes] = mapped_column(unique=True)
    # The name in the audit log.
    invited_by: Mapped[str | None]
    expires_at: Mapped[datetime.datetime]
    used_at: Mapped[datetime.datetime | None]
    # The device that it has enrolled, and the SHA-256 of the device's public key (SubjectPublicKeyInfo).
    device_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("devices.id", ondelete="SET NULL"))
    key_hash: Mapped[bytes | None]
    created_at: Mapped[CreatedAt]

    user: Mapped[User] = relationship(lazy="raise")


class Totp(Base):
    """A device's TOTP secret, encrypted under the master key, and its protection against guesses (RFC 6238 section 5.2)."""

    __tablename__ = "totp"

    device_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("devices.id", ondelete="CASCADE"), primary_key=True
    )
    secret_ciphertext: Mapped[bytes]
    last_used_step: Mapped[int] = mapped_column(BigInteger, default=0)
    failures: Mapped[int] = mapped_column(default=0)
    locked_until: Mapped[datetime.datetime | None]
    # The steps by which its clock was ahead at the last code.
    drift_steps: Mapped[int] = mapped_column(default=0, server_default="0")


class RecoveryCode(Base):
    """A code that replaces a device's authenticator once, and is deleted then. Only its SHA-256 is stored."""

    __tablename__ = "recovery_codes"

    device_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("devices.id", ondelete="CASCADE"), primary_key=True
    )
    code_hash: Mapped[bytes] = mapped_column(primary_key=True)


class RenewalChallenge(Base):
    """The SHA-256 of a used challenge of a late renewal (identity/late_renewal.py); deleted after its expiry."""

    __tablename__ = "renewal_challenges"

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    expires_at: Mapped[datetime.datetime]
