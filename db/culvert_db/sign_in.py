"""Administrators' other credentials: recovery codes, passkeys, accounts at an OpenID Connect provider."""

from __future__ import annotations

import datetime

from sqlalchemy import BigInteger, ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from culvert_db.base import Base, CreatedAt


class AdminIdentity(Base):
    """An administrator's subject at an OpenID Connect provider (Core, section 5.7)."""

    __tablename__ = "admin_identities"

    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    admin_id: Mapped[int] = mapped_column(ForeignKey("admins.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[CreatedAt]


class AdminPasskey(Base):
    """A WebAuthn credential, with its public key in COSE format."""

    __tablename__ = "admin_passkeys"

    credential_id: Mapped[bytes] = mapped_column(primary_key=True)
    admin_id: Mapped[int] = mapped_column(ForeignKey("admins.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    public_key: Mapped[bytes]
    sign_count: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[CreatedAt]
    last_used_at: Mapped[datetime.datetime | None]


class AdminRecoveryCode(Base):
    """A code that replaces an authenticator's code once. Only its SHA-256 is stored."""

    __tablename__ = "admin_recovery_codes"

    admin_id: Mapped[int] = mapped_column(ForeignKey("admins.id", ondelete="CASCADE"), primary_key=True)
    hash: Mapped[bytes] = mapped_column(primary_key=True)


class AdminChallenge(Base):
    """The SHA-256 of an open challenge. With `admin_id` the answer registers a passkey, without it the answer signs in."""

    __tablename__ = "admin_challenges"

    hash: Mapped[bytes] = mapped_column(primary_key=True)
    admin_id: Mapped[int | None] = mapped_column(ForeignKey("admins.id", ondelete="CASCADE"), index=True)
    expires_at: Mapped[datetime.datetime] = mapped_column(index=True)
