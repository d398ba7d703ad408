"""Open tunnels: inner addresses, tunnels, and their SAs. Keys of SAs are never stored.

One tunnel carries one device to one resource. Each generation of its keys is two rows of `security_associations`:
`to_gateway` (the gateway decrypts: SPI unique on the gateway) and `to_device` (the device decrypts: SPI unique there).
"""

from __future__ import annotations

import datetime
import enum
import secrets
import uuid

from culvert_proto.contract import ENDPOINTS, FIRST_SPI, MTU_MIN, SAS
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    UniqueConstraint,
    false,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import INET
from sqlalchemy.orm import Mapped, mapped_column, relationship

from culvert_db.base import Base, CreatedAt, Number, state_column

_DOUBT_BITS = 62


def doubted() -> int:
    """A `policy_version` that marks a tunnel for a new decision.

    Each call returns another value, so that a decision in progress on old facts notices the new change.
    """
    return -1 - secrets.randbits(_DOUBT_BITS)


class Address(Base):
    """A device's lasting inner address in a gateway's pool; with IPv6, one of each family."""

    __tablename__ = "addresses"
    __table_args__ = (UniqueConstraint("gateway_id", "address"), UniqueConstraint("gateway_id", "address6"))

    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="CASCADE"), primary_key=True)
    device_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("devices.id", ondelete="CASCADE"), primary_key=True
    )
    address: Mapped[str] = mapped_column(INET)
    address6: Mapped[str | None] = mapped_column(INET)


class TunnelState(enum.StrEnum):
    UP = "up"
    RENEWING = "renewing"
    LEAVING = "leaving"


class Tunnel(Base):
    """An open tunnel; a closed one has no row. `generation`: the one with which the gateway encrypts.

    A leaving tunnel has been replaced by one at another gateway, and stays until its SAs have drained.
    """

    __tablename__ = "tunnels"
    __table_args__ = (
        Index(
            "uq_tunnels_device_id_resource_id",
            "device_id",
            "resource_id",
            unique=True,
            postgresql_where=text("state <> 'leaving'"),
        ),
        ForeignKeyConstraint(
            ["gateway_id", "device_id"], ["addresses.gateway_id", "addresses.device_id"], ondelete="CASCADE"
        ),
        UniqueConstraint("gateway_id", "endpoint"),
        Index("ix_tunnels_led_away", "gateway_id", postgresql_where=text("led_away")),
        CheckConstraint("peer_port BETWEEN 0 AND 65535", name="peer_port_is_a_port"),
        CheckConstraint(f"endpoint BETWEEN 0 AND {ENDPOINTS - 1}", name="endpoint_exists"),
        CheckConstraint("generation >= 1", name="generation_counts_from_1"),
        CheckConstraint(f"path_mtu BETWEEN {MTU_MIN} AND 65535", name="path_mtu_is_useful"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    device_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("devices.id", ondelete="CASCADE"))
    resource_id: Mapped[int] = mapped_column(ForeignKey("resources.id", ondelete="RESTRICT"), index=True)
    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="RESTRICT"), index=True)
    state: Mapped[TunnelState] = mapped_column(state_column(TunnelState), default=TunnelState.UP)
    generation: Mapped[int]
    # The device's outer address and UDP port (0: ESP without UDP): first as in OpenTunnel, later as authenticated by the
    # gateway.
    peer_address: Mapped[str] = mapped_column(INET)
    peer_port: Mapped[int]
    # The path MTU in bytes between that address and the gateway, by the device's last report.
    path_mtu: Mapped[int | None]
    # The gateway's slot for the tunnel's authenticated peer.
    endpoint: Mapped[int]
    opened_at: Mapped[CreatedAt]
    # The name of the gateway that it moved from; a name, because the gateway may be deleted.
    moved_from: Mapped[str | None]
    # Until when, and under which PolicyVersion, it was last permitted. Negative: see `doubted`.
    permitted_until: Mapped[datetime.datetime]
    policy_version: Mapped[int] = mapped_column(BigInteger)
    # The resource's gateways have changed, so that the device is asked to open it at another one.
    led_away: Mapped[bool] = mapped_column(server_default=false())

    sas: Mapped[list[SecurityAssociation]] = relationship(
        lazy="raise", order_by="SecurityAssociation.generation", passive_deletes=True
    )

    @classmethod
    def stays(cls) -> ColumnElement[bool]:
        """The tunnel is not leaving. The state is a literal as in the index; the planner does not match a parameter."""
        return cls.state != literal_column(f"'{TunnelState.LEAVING}'")


class Direction(enum.StrEnum):
    TO_GATEWAY = "to_gateway"
    TO_DEVICE = "to_device"


class SecurityAssociation(Base):
    """A one-way SA with its numbers in the gateway's tables; `slot`: per direction in the ESP engine."""

    __tablename__ = "security_associations"
    __table_args__ = (
        UniqueConstraint("tunnel_id", "direction", "generation"),
        UniqueConstraint("gateway_id", "direction", "slot"),
        UniqueConstraint("gateway_id", "sa_id"),
        Index(
            "uq_security_associations_gateway_spi",
            "gateway_id",
            "spi",
            unique=True,
            postgresql_where=text("direction = 'to_gateway'"),
        ),
        Index(
            "uq_security_associations_device_spi",
            "device_id",
            "spi",
            unique=True,
            postgresql_where=text("direction = 'to_device'"),
        ),
        # RFC 4303 section 2.1: 0 to 255 are reserved.
        CheckConstraint(f"spi BETWEEN {FIRST_SPI} AND 4294967295", name="spi_is_not_reserved"),
        CheckConstraint("sa_id BETWEEN 1 AND 4294967295", name="sa_id_is_32_bits"),
        CheckConstraint(f"slot BETWEEN 0 AND {SAS - 1}", name="slot_exists"),
        CheckConstraint(
            "tag BETWEEN 1 AND 4294967295 OR (tag = 0 AND site_tunnel_id IS NOT NULL)", name="tag_is_32_bits"
        ),
        UniqueConstraint(
            *("site_tunnel_id", "gateway_id", "direction", "generation"),
            name="uq_security_associations_site_tunnel",
        ),
        CheckConstraint(
            "num_nonnulls(tunnel_id, site_tunnel_id) = 1 AND (tunnel_id IS NULL) = (device_id IS NULL)",
            name="belongs_to_one_tunnel",
        ),
    )

    id: Mapped[Number]
    tunnel_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("tunnels.id", ondelete="CASCADE"))
    # A tunnel between two gateways has no device.
    site_tunnel_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("site_tunnels.id", ondelete="CASCADE")
    )
    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="RESTRICT"))
    device_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("devices.id", ondelete="CASCADE"))
    direction: Mapped[Direction] = mapped_column(state_column(Direction))
    generation: Mapped[int]
    spi: Mapped[int] = mapped_column(BigInteger)
    slot: Mapped[int]
    # The gateway's port to the crypto host that serves the SA; unset: the gateway's own engine.
    crypto_port: Mapped[int | None]
    sa_id: Mapped[int] = mapped_column(BigInteger)
    # The endpoint's learned peer applies to SAs with the same tag. 0: a fixed peer.
    tag: Mapped[int] = mapped_column(BigInteger)
    # Only for site tunnels; a device's tunnel has one suite for its whole life.
    suite: Mapped[str | None]
    made_at: Mapped[CreatedAt]
    # Set when a newer generation is in use: the SA is deleted at this time.
    drain_until: Mapped[datetime.datetime | None]
