"""Tunnels between two gateways, for the networks behind them. Keys of SAs are never stored (DESIGN D1).

A generation of keys is four rows of `security_associations`: at each gateway the SA that it opens with (`to_gateway`), and
the one that it seals with (`to_device`), whose SPI is the other gateway's.
"""

from __future__ import annotations

import enum
import uuid
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from culvert_db.base import Base, CreatedAt, Version, state_column
from culvert_db.network import Gateway
from culvert_db.tunnels import SecurityAssociation


class SiteTunnelState(enum.StrEnum):
    """DOWN: a gateway lacks the keys, or none have been made yet. SWITCHING: both have them, and one may not seal with them
    yet.
    """

    DOWN = "down"
    SWITCHING = "switching"
    UP = "up"


class SiteTunnel(Base):
    """What an administrator wants between gateways `a` and `b`: what is behind each of them, as the REST API took it.

    `generation` is the one that both gateways are to seal with, 0 before the first. `problem` is why it is down, or why the
    last step failed; else empty.
    """

    __tablename__ = "site_tunnels"
    __table_args__ = (
        CheckConstraint("a_gateway_id <> b_gateway_id", name="joins_two_gateways"),
        CheckConstraint("generation >= 0", name="generation_counts_from_0"),
        CheckConstraint(
            "soft_packets >= 0 AND soft_bytes >= 0 AND soft_seconds >= 0", name="limits_are_not_negative"
        ),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    a_gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="RESTRICT"), index=True)
    b_gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="RESTRICT"), index=True)
    a_targets: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    b_targets: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    owner: Mapped[str]
    suite: Mapped[str]
    soft_packets: Mapped[int] = mapped_column(BigInteger)
    soft_bytes: Mapped[int] = mapped_column(BigInteger)
    soft_seconds: Mapped[int]
    state: Mapped[SiteTunnelState] = mapped_column(
        state_column(SiteTunnelState), default=SiteTunnelState.DOWN
    )
    generation: Mapped[int] = mapped_column(default=0)
    problem: Mapped[str] = mapped_column(default="")
    version: Mapped[Version]
    created_at: Mapped[CreatedAt]

    a: Mapped[Gateway] = relationship(lazy="raise", foreign_keys=[a_gateway_id])
    b: Mapped[Gateway] = relationship(lazy="raise", foreign_keys=[b_gateway_id])
    sas: Mapped[list[SecurityAssociation]] = relationship(
        lazy="raise", order_by=SecurityAssociation.generation, passive_deletes="all"
    )
