"""The controller that writes each gateway, and the gateway's health as that controller reports it."""

from __future__ import annotations

import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, func
from sqlalchemy.dialects.postgresql import INET, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from culvert_db.base import Base


class LiveController(Base):
    """A controller's process. It counts as alive until `ends_at` by the database's clock, which it keeps extending."""

    __tablename__ = "controllers"

    holder: Mapped[str] = mapped_column(primary_key=True)
    # Its readable name.
    name: Mapped[str]
    ends_at: Mapped[datetime.datetime]
    # The newest migration that it knows; unset: one before 0044.
    revision: Mapped[str | None]


class ControllerName(Base):
    """A present or former name or address of a controller of this database, in the spelling of `issuance.canonical`."""

    __tablename__ = "controller_names"

    name: Mapped[str] = mapped_column(primary_key=True)


class GatewayLease(Base):
    """A gateway's owner, and the lease's end by the database's clock. `epoch` grows with each new holder, and is its
    P4Runtime election id (P4Runtime section 5.3).
    """

    __tablename__ = "gateway_leases"

    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="CASCADE"), primary_key=True)
    holder: Mapped[str]
    # The holder's readable name.
    holder_name: Mapped[str]
    epoch: Mapped[int] = mapped_column(BigInteger)
    ends_at: Mapped[datetime.datetime]


class GatewayConnection(Base):
    """A connection that a gateway has made to this controller, for gateways without a P4Runtime address."""

    __tablename__ = "gateway_connections"

    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="CASCADE"), primary_key=True)
    holder: Mapped[str] = mapped_column(
        ForeignKey("controllers.holder", ondelete="CASCADE"), primary_key=True
    )


class GatewayHealth(Base):
    """A gateway's last state, reported by the owner in `epoch`. A drift: missing, foreign or changed entries that a
    reconciliation repaired while the gateway was online.
    """

    __tablename__ = "gateway_health"

    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="CASCADE"), primary_key=True)
    epoch: Mapped[int] = mapped_column(BigInteger)
    online: Mapped[bool]
    # Why it is offline; empty when it is online.
    reason: Mapped[str]
    since: Mapped[datetime.datetime]
    reconciled_at: Mapped[datetime.datetime | None]
    # Counts since the beginning, and the time of the last drift.
    drifts: Mapped[int] = mapped_column(BigInteger, server_default="0")
    drifted_at: Mapped[datetime.datetime | None]
    missing: Mapped[int] = mapped_column(server_default="0")
    foreign: Mapped[int] = mapped_column(server_default="0")
    changed: Mapped[int] = mapped_column(server_default="0")
    # The version of the switch's program when it was online last; unset: it does not tell it.
    software: Mapped[str | None]


class GatewayNeighbour(Base):
    """A neighbour of one of the gateway's ports, `wan` or `lan`, as the gateway last found it."""

    __tablename__ = "gateway_neighbours"
    __table_args__ = (CheckConstraint("side IN ('wan', 'lan')", name="side_is_known"),)

    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="CASCADE"), primary_key=True)
    side: Mapped[str] = mapped_column(primary_key=True)
    address: Mapped[str] = mapped_column(INET, primary_key=True)
    # Unset: never found.
    mac: Mapped[str | None]
    # The start of the time in which it does not answer; unset: it answers, or was not asked yet.
    silent_since: Mapped[datetime.datetime | None]


class GatewaySample(Base):
    """A sample of a gateway's counters: packets dropped so far, by cause; and the duration of the answer. All tunnels
    together carried `received_bytes` and `sent_bytes` of IP packets in the `seconds` before it; unset: not measured.
    """

    __tablename__ = "gateway_samples"

    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="CASCADE"), primary_key=True)
    at: Mapped[datetime.datetime] = mapped_column(primary_key=True, server_default=func.now())
    drops: Mapped[dict[str, int]] = mapped_column(JSONB)
    # Microseconds; unset if not measured.
    round_trip_us: Mapped[int | None]
    received_bytes: Mapped[int | None] = mapped_column(BigInteger)
    sent_bytes: Mapped[int | None] = mapped_column(BigInteger)
    seconds: Mapped[float | None]
    # Open tunnels of devices.
    tunnels: Mapped[int | None]
