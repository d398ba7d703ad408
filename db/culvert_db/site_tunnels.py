"""Tunnels between two gateways, for the networks behind them. Keys of SAs are never stored.

A generation is four rows of `security_associations`: at each gateway the SA for decryption (`to_gateway`), and the SA for
encryption (`to_device`), whose SPI the other gateway has. Rows keep the suite of their creation.
"""

from __future__ import annotations

import enum
import uuid
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from culvert_db.base import Base, CreatedAt, Version, state_column
from culvert_db.network import Gateway, Resource
from culvert_db.tunnels import SecurityAssociation


class SiteTunnelState(enum.StrEnum):
    """DOWN: a gateway lacks the keys, or there are none yet. SWITCHING: both have the keys, but one may not encrypt with
    them yet.
    """

    DOWN = "down"
    SWITCHING = "switching"
    UP = "up"


class SiteTunnel(Base):
    """A tunnel between gateways `a` and `b`, as an administrator described it to the REST API: the prefixes behind each,
    beside those of its resources. If suite and limits are unset, the resources' apply.

    `generation`: the one for encryption at both gateways, 0 before the first. `problem`: why the tunnel is down, or why the
    last step failed; otherwise empty.
    """

    __tablename__ = "site_tunnels"
    __table_args__ = (
        CheckConstraint("a_gateway_id <> b_gateway_id", name="joins_two_gateways"),
        CheckConstraint("generation >= 0", name="generation_counts_from_0"),
        CheckConstraint(
            "soft_packets >= 0 AND soft_bytes >= 0 AND soft_seconds >= 0", name="limits_are_not_negative"
        ),
        CheckConstraint(
            "num_nulls(soft_packets, soft_bytes, soft_seconds) IN (0, 3)", name="limits_are_together"
        ),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    a_gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="RESTRICT"), index=True)
    b_gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="RESTRICT"), index=True)
    a_targets: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    b_targets: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    owner: Mapped[str]
    suite: Mapped[str | None]
    soft_packets: Mapped[int | None] = mapped_column(BigInteger)
    soft_bytes: Mapped[int | None] = mapped_column(BigInteger)
    soft_seconds: Mapped[int | None]
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
    carried: Mapped[list[SiteTunnelResource]] = relationship(
        lazy="raise", cascade="all, delete-orphan", passive_deletes=True
    )


class SiteTunnelResource(Base):
    """A resource behind one of the tunnel's two gateways, carried by the tunnel."""

    __tablename__ = "site_tunnel_resources"

    site_tunnel_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("site_tunnels.id", ondelete="CASCADE"), primary_key=True
    )
    resource_id: Mapped[int] = mapped_column(
        ForeignKey("resources.id", ondelete="RESTRICT"), primary_key=True, index=True
    )
    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="RESTRICT"))

    resource: Mapped[Resource] = relationship(lazy="raise")
