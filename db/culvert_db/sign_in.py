"""Other ways in for administrators than password and code: recovery codes, passkeys, a provider of OpenID Connect."""

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
    """A credential of WebAuthn: its public key is COSE, as the authenticator gave it."""

    __tablename__ = "admin_passkeys"

    credential_id: Mapped[bytes] = mapped_column(primary_key=True)
    admin_id: Mapped[int] = mapped_column(ForeignKey("admins.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    public_key: Mapped[bytes]
    sign_count: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[CreatedAt]
    last_used_at: Mapped[datetime.datetime | None]


class AdminRecoveryCode(Base):
    """Stands in for an authenticator's code, once. Only its SHA-256 is kept."""

    __tablename__ = "admin_recovery_codes"

    admin_id: Mapped[int] = mapped_column(ForeignKey("admins.id", ondelete="CASCADE"), primary_key=True)
    hash: Mapped[bytes] = mapped_column(primary_key=True)


class AdminChallenge(Base):
    """A challenge by its SHA-256, to be answered once. With `admin_id` the answer registers a key, without it signs in."""

    __tablename__ = "admin_challenges"

    hash: Mapped[bytes] = mapped_column(primary_key=True)
    admin_id: Mapped[int | None] = mapped_column(ForeignKey("admins.id", ondelete="CASCADE"), index=True)
    expires_at: Mapped[datetime.datetime] = mapped_column(index=True)
