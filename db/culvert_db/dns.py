"""What has been published: one row for each name and type that dns-updater owns or wants to own."""

from __future__ import annotations

import datetime
import enum

from sqlalchemy import func
from sqlalchemy.orm import Mapped, mapped_column

from culvert_db.base import Base, state_column


class DnsState(enum.StrEnum):
    PENDING = "pending"
    LIVE = "live"
    REFUSED = "refused"


class DnsRecord(Base):
    """`reason` is the name of a culvert_proto Reason; it, `message` and `remedy` are set when the state is refused."""

    __tablename__ = "dns_records"

    # Absolute, lower case, without the final dot, as in resources.fqdn.
    name: Mapped[str] = mapped_column(primary_key=True)
    zone: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[DnsState] = mapped_column(state_column(DnsState), default=DnsState.PENDING)
    reason: Mapped[str | None]
    message: Mapped[str | None]
    remedy: Mapped[str | None]
    updated_at: Mapped[datetime.datetime] = mapped_column(server_default=func.now(), onupdate=func.now())
    attempts: Mapped[int] = mapped_column(default=0, server_default="0")
