"""The audit log: lines with actor, action, object, outcome and source, in hash chains that the database protects."""

from __future__ import annotations

import datetime
import enum

from sqlalchemy import BigInteger, Index, SmallInteger, text
from sqlalchemy.orm import Mapped, mapped_column

from culvert_db.base import Base, state_column


class ActorKind(enum.StrEnum):
    ADMIN = "admin"
    TOKEN = "token"  # noqa: S105
    DEVICE = "device"
    INVITATION = "invitation"
    SYSTEM = "system"


class Outcome(enum.StrEnum):
    DONE = "done"
    DENIED = "denied"


class AuditLine(Base):
    """The database sets `chain`, `seq`, `at` and `hash`, whatever an insertion gives. It refuses to change a line, and to
    delete a line without an `AuditCut` that covers it.

    A connection appends to one chain, so that transactions seldom wait for each other's commit. `details` is a JSON
    object in the canonical form of RFC 8785: a text, because the hash covers its bytes.
    """

    __tablename__ = "audit_lines"
    __table_args__ = (
        Index(None, "at", "chain", "seq"),
        Index("ix_audit_lines_denied", "actor", "at", postgresql_where=text("outcome = 'denied'")),
    )

    chain: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    at: Mapped[datetime.datetime]
    actor_kind: Mapped[ActorKind] = mapped_column(state_column(ActorKind))
    actor: Mapped[str]
    source: Mapped[str | None]
    action: Mapped[str]
    object: Mapped[str]
    outcome: Mapped[Outcome] = mapped_column(state_column(Outcome))
    # The name of a culvert_proto Reason, and its text for this case.
    reason: Mapped[str | None]
    why: Mapped[str | None]
    details: Mapped[str]
    hash: Mapped[bytes]


class AuditCut(Base):
    """A record that the lines of a chain up to `seq` were removed; `lines` of them since the previous cut.

    `hash` is the hash of line `seq`. The database refuses to change or delete a cut. `export` is the SHA-256 of the file
    that holds the lines, if there is one. `signature` is made by a controller (audit/cut.py).
    """

    __tablename__ = "audit_cuts"

    chain: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    # 1, 2, 3, … in each chain.
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(BigInteger)
    hash: Mapped[bytes]
    lines: Mapped[int] = mapped_column(BigInteger)
    # The requested time: all older lines were removed, except the last line of the chain.
    before: Mapped[datetime.datetime]
    at: Mapped[datetime.datetime]
    actor: Mapped[str]
    export: Mapped[bytes | None]
    signature: Mapped[bytes]
