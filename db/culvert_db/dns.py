"""The zones that dns-updater writes, their leases, and the state of their records."""

from __future__ import annotations

import datetime
import enum

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, UniqueConstraint, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from culvert_db.base import Base, CreatedAt, Number, Version, state_column


class DnsState(enum.StrEnum):
    PENDING = "pending"
    LIVE = "live"
    REFUSED = "refused"
    FOREIGN = "foreign"
    OCCLUDED = "occluded"
    UNREACHABLE = "unreachable"


class DnsZone(Base):
    """A zone on a name server, or one view of it: the server distinguishes views by the TSIG key or by its port.

    `key` names a file in dns-updater's key directory: the secret itself is in no table. A zone that retires stays until
    its records have been withdrawn.
    """

    __tablename__ = "dns_zones"
    __table_args__ = (
        UniqueConstraint("origin", "view"),
        CheckConstraint("origin = lower(origin) AND origin NOT LIKE '%.'", name="origin_is_canonical"),
        CheckConstraint("port BETWEEN 1 AND 65535", name="port_is_a_port"),
        CheckConstraint("ttl BETWEEN 0 AND 2147483647", name="ttl_is_31_bits"),
    )

    id: Mapped[Number]
    name: Mapped[str] = mapped_column(unique=True)
    origin: Mapped[str]
    view: Mapped[str] = mapped_column(server_default="")
    server: Mapped[str]
    port: Mapped[int] = mapped_column(server_default="53")
    key: Mapped[str]
    # Seconds.
    ttl: Mapped[int] = mapped_column(server_default="60")
    # Distinguishes this Culvert's records from another Culvert's in the same zone.
    instance: Mapped[str] = mapped_column(server_default="default")
    # False: only those in dns_zone_resources.
    all_resources: Mapped[bool] = mapped_column(server_default="true")
    retiring: Mapped[bool] = mapped_column(server_default="false")
    version: Mapped[Version]
    created_at: Mapped[CreatedAt]


class DnsZoneResource(Base):
    """A resource that a zone publishes, if it does not publish all."""

    __tablename__ = "dns_zone_resources"

    zone_id: Mapped[int] = mapped_column(ForeignKey("dns_zones.id", ondelete="CASCADE"), primary_key=True)
    resource_id: Mapped[int] = mapped_column(
        ForeignKey("resources.id", ondelete="CASCADE"), primary_key=True, index=True
    )


class DenialPage(Base):
    """Whether a denied name of a managed zone shows a page. Without a row, the controller's settings decide."""

    __tablename__ = "denial_pages"

    origin: Mapped[str] = mapped_column(primary_key=True)
    shown: Mapped[bool]


class DnsLease(Base):
    """A zone's owning dns-updater, until a time of the database's clock. `epoch` grows with each new holder."""

    __tablename__ = "dns_leases"

    zone_id: Mapped[int] = mapped_column(ForeignKey("dns_zones.id", ondelete="CASCADE"), primary_key=True)
    holder: Mapped[str]
    epoch: Mapped[int] = mapped_column(BigInteger)
    ends_at: Mapped[datetime.datetime]


class DnsZoneStatus(Base):
    """The last findings of the zone's holder. `behind_since` is unset while the zone is equal to the resources."""

    __tablename__ = "dns_zone_status"

    zone_id: Mapped[int] = mapped_column(ForeignKey("dns_zones.id", ondelete="CASCADE"), primary_key=True)
    state: Mapped[DnsState] = mapped_column(state_column(DnsState))
    reason: Mapped[str | None]
    message: Mapped[str | None]
    remedy: Mapped[str | None]
    # The SOA's, of the last transfer (RFC 1035 §3.3.13).
    serial: Mapped[int | None] = mapped_column(BigInteger)
    checked_at: Mapped[datetime.datetime | None]
    behind_since: Mapped[datetime.datetime | None]
    # The number of consecutive failed passes.
    failures: Mapped[int] = mapped_column(server_default="0")


class DnsRecord(Base):
    """A name and type that dns-updater owns or has to publish.

    `reason`: the name of a culvert_proto Reason; it, `message` and `remedy` say why the record is not live. Until it is,
    `wanted`: the desired values (RFC 1035 section 5.1), and `found`: those in the zone; unset: unknown.
    """

    __tablename__ = "dns_records"

    # Absolute, lower case, without the final dot, as in resources.fqdn.
    name: Mapped[str] = mapped_column(primary_key=True)
    # The name of a DnsZone; empty for a name that none of them publishes.
    zone: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[DnsState] = mapped_column(state_column(DnsState), default=DnsState.PENDING)
    reason: Mapped[str | None]
    message: Mapped[str | None]
    remedy: Mapped[str | None]
    wanted: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))
    found: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))
    updated_at: Mapped[datetime.datetime] = mapped_column(server_default=func.now(), onupdate=func.now())
    attempts: Mapped[int] = mapped_column(default=0, server_default="0")
