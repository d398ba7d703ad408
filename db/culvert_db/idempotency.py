"""Stored answers, so that a repeated request has no second effect."""

from __future__ import annotations

import datetime

from sqlalchemy import text
from sqlalchemy.orm import Mapped, mapped_column

from culvert_db.base import Base


class IdempotencyKey(Base):
    """Without `status`, the request is running, or its controller died. The answer is encrypted: it may have a token.

    `effect` is written in the transaction of what the request changes.
    """

    __tablename__ = "idempotency_keys"

    caller: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    # SHA-256 of the request.
    fingerprint: Mapped[bytes]
    claimed_at: Mapped[datetime.datetime] = mapped_column(index=True)
    effect: Mapped[bool] = mapped_column(server_default=text("false"))
    status: Mapped[int | None]
    media_type: Mapped[str | None]
    body_ciphertext: Mapped[bytes | None]
