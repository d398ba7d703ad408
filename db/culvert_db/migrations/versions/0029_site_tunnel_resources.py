"""Tunnels between gateways that carry what resources say, and SAs that keep the suite that they were made with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_OF_PROFILES = ("suite", "soft_packets", "soft_bytes", "soft_seconds")
_LIMITS = op.f("ck_site_tunnels_limits_are_together")
_WANTED = ("name", "a_gateway_id", "b_gateway_id", "a_targets", "b_targets", "owner", *_OF_PROFILES)
_COUNT = """
CREATE OR REPLACE TRIGGER culvert_count_version BEFORE UPDATE OF {columns}
ON site_tunnels FOR EACH ROW EXECUTE FUNCTION culvert_count_version()
"""
_COUNT_PART = """
CREATE FUNCTION culvert_count_version_of_site_tunnels() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE site_tunnels SET version = version WHERE id IN (SELECT site_tunnel_id FROM changed);
    RETURN NULL;
END
$$
"""
_COUNT_PART_TRIGGER = """
CREATE TRIGGER culvert_count_version_{what} AFTER {event} ON site_tunnel_resources
REFERENCING {rows} TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION culvert_count_version_of_site_tunnels()
"""
_EVENTS = (("inserted", "INSERT", "NEW"), ("deleted", "DELETE", "OLD"), ("updated", "UPDATE", "NEW"))


def upgrade() -> None:
    op.create_table(
        "site_tunnel_resources",
        sa.Column("site_tunnel_id", sa.Uuid(), nullable=False),
        sa.Column("resource_id", sa.BigInteger(), nullable=False),
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["site_tunnel_id"],
            ["site_tunnels.id"],
            name="fk_site_tunnel_resources_site_tunnel_id_site_tunnels",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["resource_id"],
            ["resources.id"],
            name="fk_site_tunnel_resources_resource_id_resources",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["gateway_id"],
            ["gateways.id"],
            name="fk_site_tunnel_resources_gateway_id_gateways",
            ondelete="RESTRICT",
        ),
        sa.PrimaryKeyConstraint("site_tunnel_id", "resource_id", name="pk_site_tunnel_resources"),
    )
    op.create_index("ix_site_tunnel_resources_resource_id", "site_tunnel_resources", ["resource_id"])
    for column in _OF_PROFILES:
        op.alter_column("site_tunnels", column, nullable=True)
    op.create_check_constraint(
        _LIMITS, "site_tunnels", "num_nulls(soft_packets, soft_bytes, soft_seconds) IN (0, 3)"
    )
    op.execute(_COUNT.format(columns=", ".join((*_WANTED, "version"))))
    op.execute(_COUNT_PART)
    for what, event, rows in _EVENTS:
        op.execute(_COUNT_PART_TRIGGER.format(what=what, event=event, rows=rows))
    op.add_column("security_associations", sa.Column("suite", sa.Text()))
    op.execute(
        "UPDATE security_associations SET suite = site_tunnels.suite FROM site_tunnels"
        " WHERE site_tunnels.id = site_tunnel_id"
    )


def downgrade() -> None:
    op.drop_column("security_associations", "suite")
    op.execute(_COUNT.format(columns=", ".join(_WANTED)))
    op.drop_table("site_tunnel_resources")
    op.execute("DROP FUNCTION culvert_count_version_of_site_tunnels")
    op.drop_constraint(_LIMITS, "site_tunnels", type_="check")
    op.execute("UPDATE site_tunnels SET suite = 'aes-gcm-256' WHERE suite IS NULL")
    op.execute(
        "UPDATE site_tunnels SET soft_packets = 0, soft_bytes = 68719476736, soft_seconds = 3600"
        " WHERE soft_seconds IS NULL"
    )
    for column in _OF_PROFILES:
        op.alter_column("site_tunnels", column, nullable=False)
