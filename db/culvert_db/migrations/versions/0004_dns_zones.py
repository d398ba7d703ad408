"""Zones and views as rows, the leases of their keepers, and how each fares."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_OLD_STATES = ("pending", "live", "refused")
_STATES = (*_OLD_STATES, "foreign", "unreachable")

_TELL_FUNCTION = """
CREATE FUNCTION tell_of_dns_zones() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('culvert_dns_zones', '');
    RETURN NULL;
END $$
"""
_TELL_TRIGGER = """
CREATE TRIGGER {table}_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION tell_of_dns_zones()
"""
_TOLD_OF = ("dns_zones", "dns_zone_resources")


def upgrade() -> None:
    op.create_table(
        "dns_zones",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("view", sa.Text(), server_default="", nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("port", sa.Integer(), server_default="53", nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("ttl", sa.Integer(), server_default="60", nullable=False),
        sa.Column("instance", sa.Text(), server_default="default", nullable=False),
        sa.Column("all_resources", sa.Boolean(), server_default="true", nullable=False),
        sa.Column("retiring", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dns_zones"),
        sa.UniqueConstraint("name", name="uq_dns_zones_name"),
        sa.UniqueConstraint("origin", "view", name="uq_dns_zones_origin_view"),
        sa.CheckConstraint(
            "origin = lower(origin) AND origin NOT LIKE '%.'", name=op.f("ck_dns_zones_origin_is_canonical")
        ),
        sa.CheckConstraint("port BETWEEN 1 AND 65535", name=op.f("ck_dns_zones_port_is_a_port")),
        sa.CheckConstraint("ttl BETWEEN 0 AND 2147483647", name=op.f("ck_dns_zones_ttl_is_31_bits")),
    )
    op.create_table(
        "dns_zone_resources",
        sa.Column("zone_id", sa.BigInteger(), nullable=False),
        sa.Column("resource_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "resource_id", name="pk_dns_zone_resources"),
        _of_zone("dns_zone_resources"),
        sa.ForeignKeyConstraint(
            ["resource_id"],
            ["resources.id"],
            name="fk_dns_zone_resources_resource_id_resources",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_dns_zone_resources_resource_id", "dns_zone_resources", ["resource_id"])
    op.create_table(
        "dns_leases",
        sa.Column("zone_id", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", name="pk_dns_leases"),
        _of_zone("dns_leases"),
    )
    op.create_table(
        "dns_zone_status",
        sa.Column("zone_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(*_STATES, name="dnsstate", native_enum=False, create_constraint=True, length=None),
            nullable=False,
        ),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("remedy", sa.Text(), nullable=True),
        sa.Column("serial", sa.BigInteger(), nullable=True),
        sa.Column("checked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("behind_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("zone_id", name="pk_dns_zone_status"),
        _of_zone("dns_zone_status"),
    )
    op.execute(_TELL_FUNCTION)
    for table in _TOLD_OF:
        op.execute(_TELL_TRIGGER.format(table=table))
    _allow(_STATES)


def downgrade() -> None:
    # dns-updater writes them anew.
    op.execute("DELETE FROM dns_records")
    _allow(_OLD_STATES)
    for table in ("dns_zone_status", "dns_leases", "dns_zone_resources", "dns_zones"):
        op.drop_table(table)
    op.execute("DROP FUNCTION tell_of_dns_zones")


def _of_zone(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["zone_id"], ["dns_zones.id"], name=f"fk_{table}_zone_id_dns_zones", ondelete="CASCADE"
    )


def _allow(states: tuple[str, ...]) -> None:
    name = op.f("ck_dns_records_dnsstate")
    op.drop_constraint(name, "dns_records", type_="check")
    op.create_check_constraint(name, "dns_records", f"state IN {states}")
