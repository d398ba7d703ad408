"""Administrators: accounts, sessions, failed sign-ins, invitations, API tokens. No secret is stored in clear."""

from __future__ import annotations

import datetime
import enum
import uuid
from typing import Any

from sqlalchemy import BigInteger, ForeignKey
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column, relationship
from sqlalchemy.types import Text

from culvert_db.base import Base, CreatedAt, Number, state_column


class Role(enum.StrEnum):
    OWNER = "owner"
    ADMIN = "admin"
    AUDITOR = "auditor"


class Admin(Base):
    """`password_hash`: argon2id; the TOTP secret is encrypted under the master key. The first sign-in confirms the account.

    An administrator who signs in through OpenID Connect has neither. An account without a sign-in by `setup_until` can no
    longer be used.
    """

    __tablename__ = "admins"

    id: Mapped[Number]
    name: Mapped[str] = mapped_column(unique=True)
    role: Mapped[Role] = mapped_column(state_column(Role))
    # The version of the fields that other administrators may change; a sign-in does not increase it.
    version: Mapped[int] = mapped_column(default=1)
    password_hash: Mapped[str | None]
    secret_ciphertext: Mapped[bytes | None]
    last_used_step: Mapped[int] = mapped_column(BigInteger, default=0)
    # The number of wrong codes after the right password, since the last right code or an hour without wrong codes.
    code_failures: Mapped[int] = mapped_column(default=0, server_default="0")
    code_failed_at: Mapped[datetime.datetime | None]
    code_locked_until: Mapped[datetime.datetime | None]
    created_at: Mapped[CreatedAt]
    confirmed_at: Mapped[datetime.datetime | None]
    setup_until: Mapped[datetime.datetime | None]


class AdminInvitation(Base):
    """A right to make one account, until the account's first sign-in. Only the token's SHA-256 is stored.

    `admin_id`: the account that the invitation has made, as long as nobody has signed in to it.
    """

    __tablename__ = "admin_invitations"

    token_hash: Mapped[bytes] = mapped_column(primary_key=True)
    role: Mapped[Role] = mapped_column(state_column(Role))
    expires_at: Mapped[datetime.datetime]
    created_at: Mapped[CreatedAt]
    # The name of an administrator, or of root's token. Null: `init` made the invitation.
    created_by: Mapped[str | None]
    admin_id: Mapped[int | None] = mapped_column(ForeignKey("admins.id", ondelete="SET NULL"), unique=True)


class AdminSession(Base):
    """`proven_at`: the time of the last proof by password and code, or by passkey. `source`, `user_agent`: those of the
    sign-in.
    """

    __tablename__ = "admin_sessions"

    token_hash: Mapped[bytes] = mapped_column(primary_key=True)
    admin_id: Mapped[int] = mapped_column(ForeignKey("admins.id", ondelete="CASCADE"), index=True)
    expires_at: Mapped[datetime.datetime]
    created_at: Mapped[CreatedAt]
    proven_at: Mapped[datetime.datetime]
    last_used_at: Mapped[datetime.datetime]
    source: Mapped[str | None]
    user_agent: Mapped[str | None]

    admin: Mapped[Admin] = relationship(lazy="raise")


class SignInGuesses(Base):
    """Wrong sign-ins at one name from one prefix. A lock holds for this pair, and not for other prefixes or other names."""

    __tablename__ = "sign_in_guesses"

    name: Mapped[str] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    failures: Mapped[int]
    locked_until: Mapped[datetime.datetime | None]
    last_at: Mapped[datetime.datetime] = mapped_column(index=True)


class WrongCodes(Base):
    """Wrong codes after the right password, from one prefix, since the administrator's last notice of them."""

    __tablename__ = "admin_wrong_codes"

    admin_id: Mapped[int] = mapped_column(ForeignKey("admins.id", ondelete="CASCADE"), primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    failures: Mapped[int]
    last_at: Mapped[datetime.datetime]


class AdminNotice(Base):
    """A notice that one administrator has not dismissed. The fields are as in the audit log."""

    __tablename__ = "admin_notices"

    id: Mapped[Number]
    admin_id: Mapped[int] = mapped_column(ForeignKey("admins.id", ondelete="CASCADE"), index=True)
    at: Mapped[CreatedAt]
    actor: Mapped[str]
    source: Mapped[str | None]
    action: Mapped[str]
    object: Mapped[str]
    details: Mapped[dict[str, Any]]


class ApiToken(Base):
    """Only the token's SHA-256 is stored. `scopes`: `read`, `write`, `AREA:read` or `AREA:write`."""

    __tablename__ = "api_tokens"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    token_hash: Mapped[bytes] = mapped_column(unique=True)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text()))
    expires_at: Mapped[datetime.datetime]
    created_by: Mapped[str]
    created_at: Mapped[CreatedAt]
