"""Gateways and the resources behind them."""

from __future__ import annotations

import datetime
from typing import Any

from culvert_proto.contract import Suite
from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY, CIDR, INET, JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from culvert_db.base import Base, CreatedAt, Number, Version


class Gateway(Base):
    """A P4 switch that carries tunnels. `wan`, `lan`: its two ports, as in the REST API.

    `kind`: sluice, bmv2, … `suite`: the suite of its SAs. `legacy_suites`: those that an administrator has allowed.
    `address`, `address6`: its own in outer packets. `public_address`, `public_address6`: the addresses that devices and
    other gateways send to, which lead to its own through a NAT; unset: its own.
    """

    __tablename__ = "gateways"
    __table_args__ = (
        UniqueConstraint("p4runtime_address", "p4runtime_device_id"),
        # Behind NATs, gateways of several sites may have the same address of their own.
        Index("uq_gateways_address", text("coalesce(public_address, address)"), unique=True),
        Index("uq_gateways_address6", text("coalesce(public_address6, address6)"), unique=True),
    )

    id: Mapped[Number]
    name: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str] = mapped_column(server_default="sluice")
    address: Mapped[str] = mapped_column(INET)
    address6: Mapped[str | None] = mapped_column(INET)
    public_address: Mapped[str | None] = mapped_column(INET)
    public_address6: Mapped[str | None] = mapped_column(INET)
    # Unset: the gateway connects to the controllers.
    p4runtime_address: Mapped[str | None]
    p4runtime_device_id: Mapped[int] = mapped_column(BigInteger)
    pool: Mapped[str] = mapped_column(CIDR)
    pool6: Mapped[str | None] = mapped_column(CIDR)
    wan: Mapped[dict[str, Any]]
    lan: Mapped[dict[str, Any]]
    # {"wan": […], "lan": […]}: addresses of neighbours whose MAC addresses the gateway finds (GatewayNeighbour). The next
    # hops are in the order of `wan`. Both columns above have a MAC address for each of them, too.
    resolves: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    suite: Mapped[str] = mapped_column(server_default=Suite.AES_GCM_256.value)
    legacy_suites: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    # Key-encryption key, encrypted under the controller's master key.
    kek_ciphertext: Mapped[bytes]
    # The KEK of the last bundle, until the gateway is seen with it.
    next_kek_ciphertext: Mapped[bytes | None]
    # The time of the first bundle; unset: no bundle was given.
    bundled_at: Mapped[datetime.datetime | None]
    # The end of the certificate that came with `kek_ciphertext`, or of its renewal; the same of `next_kek_ciphertext`.
    certificate_expires_at: Mapped[datetime.datetime | None]
    next_certificate_expires_at: Mapped[datetime.datetime | None]
    # While some SAs may still be wrapped under the previous key: the time since which the present key is in use.
    rekeying_since: Mapped[datetime.datetime | None]
    # SHA-256 of the public key that the gateway has joined with and may renew its certificate for; unset: none.
    key_hash: Mapped[bytes | None] = mapped_column(unique=True)
    # The start of a drain, during which no tunnel opens and open ones move; unset: no drain.
    draining_since: Mapped[datetime.datetime | None]
    version: Mapped[Version]
    created_at: Mapped[CreatedAt]


class CryptoHost(Base):
    """A computer behind a gateway's port that opens and seals ESP for it (docs/crypto-port.md).

    `port`, `mac`: the gateway's, towards the host. `host_port`, `host_mac`: the host's, towards the gateway.
    """

    __tablename__ = "crypto_hosts"
    __table_args__ = (
        UniqueConstraint("gateway_id", "port"),
        UniqueConstraint("p4runtime_address", "p4runtime_device_id"),
        CheckConstraint("port BETWEEN 0 AND 511 AND host_port BETWEEN 0 AND 511", name="ports_are_9_bits"),
    )

    id: Mapped[Number]
    name: Mapped[str] = mapped_column(unique=True)
    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="CASCADE"))
    p4runtime_address: Mapped[str]
    p4runtime_device_id: Mapped[int] = mapped_column(BigInteger)
    port: Mapped[int]
    mac: Mapped[str]
    host_port: Mapped[int]
    host_mac: Mapped[str]
    # Key-encryption key, encrypted under the controller's master key.
    kek_ciphertext: Mapped[bytes]
    # The start of a drain, during which the host gets no SA, and devices are asked to renew those that it has.
    draining_since: Mapped[datetime.datetime | None]
    version: Mapped[Version]
    created_at: Mapped[CreatedAt]


class GatewayEnrolment(Base):
    """The permission for one computer to join as this gateway, once. A new one for the name replaces it.

    `pool`, `pool6`, `suite`: of the gateway that joins; all unset for a gateway that exists and keeps its own.
    """

    __tablename__ = "gateway_enrolments"
    __table_args__ = (CheckConstraint("octet_length(token_hash) = 32", name="token_hash_is_sha256"),)

    id: Mapped[Number]
    gateway: Mapped[str] = mapped_column(unique=True)
    token_hash: Mapped[bytes] = mapped_column(unique=True)
    pool: Mapped[str | None] = mapped_column(CIDR)
    pool6: Mapped[str | None] = mapped_column(CIDR)
    suite: Mapped[str | None]
    made_by: Mapped[str]
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime.datetime]
    used_at: Mapped[datetime.datetime | None]
    # SHA-256 of the key that it was used with, so that the same computer can ask again when the answer was lost.
    key_hash: Mapped[bytes | None]


class Resource(Base):
    """An internal name, or with "*." at its start all names below one, with its targets.

    Each target has a `prefix`, and optionally `protocol` and `ports`, as in the REST API. Limits of 0: no limit of that
    kind.
    """

    __tablename__ = "resources"
    __table_args__ = (
        CheckConstraint("fqdn = lower(fqdn) AND fqdn NOT LIKE '%.'", name="fqdn_is_canonical"),
        CheckConstraint("jsonb_typeof(targets) = 'array' AND targets <> '[]'", name="targets_are_a_list"),
        CheckConstraint("idle_seconds > 0", name="idle_is_positive"),
        CheckConstraint(
            "soft_packets >= 0 AND soft_bytes >= 0 AND soft_seconds >= 0", name="limits_are_not_negative"
        ),
    )

    id: Mapped[Number]
    name: Mapped[str] = mapped_column(unique=True)
    fqdn: Mapped[str] = mapped_column(unique=True)
    # `fqdn` with U-labels, for searches; empty if it has none.
    unicode_name: Mapped[str] = mapped_column(server_default="")
    targets: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    owner: Mapped[str]
    idle_seconds: Mapped[int]
    soft_packets: Mapped[int] = mapped_column(BigInteger)
    soft_bytes: Mapped[int] = mapped_column(BigInteger)
    soft_seconds: Mapped[int]
    # The suite of its tunnels' SAs; unset: the gateway's.
    suite: Mapped[str | None]
    version: Mapped[Version]
    created_at: Mapped[CreatedAt]

    gateways: Mapped[list[ResourceGateway]] = relationship(
        lazy="raise", order_by="ResourceGateway.position", cascade="all, delete-orphan", passive_deletes=True
    )


class ResourceGateway(Base):
    """A gateway that serves a resource; the lowest position is tried first, unless the gateways have weights."""

    __tablename__ = "resource_gateways"
    __table_args__ = (
        UniqueConstraint("resource_id", "position"),
        CheckConstraint("weight BETWEEN 0 AND 1000", name="weight_is_a_share"),
    )

    resource_id: Mapped[int] = mapped_column(ForeignKey("resources.id", ondelete="CASCADE"), primary_key=True)
    gateway_id: Mapped[int] = mapped_column(ForeignKey("gateways.id", ondelete="RESTRICT"), primary_key=True)
    position: Mapped[int]
    # The gateway's share of the devices.
    weight: Mapped[int | None]

    gateway: Mapped[Gateway] = relationship(lazy="raise")
