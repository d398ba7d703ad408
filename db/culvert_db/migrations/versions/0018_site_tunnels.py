"""Tunnels between two gateways: their SAs belong to no device."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_OF_ONE = op.f("ck_security_associations_belongs_to_one_tunnel")
_TAG = op.f("ck_security_associations_tag_is_32_bits")
_BETWEEN = ("gateway_id", "direction", "generation")
_UNIQUE = "uq_security_associations_site_tunnel"
# Their keys come and go without an administrator.
_COUNT = """
CREATE TRIGGER culvert_count_version BEFORE UPDATE
OF name, a_gateway_id, b_gateway_id, a_targets, b_targets, owner, suite, soft_packets, soft_bytes, soft_seconds
ON site_tunnels FOR EACH ROW EXECUTE FUNCTION culvert_count_version()
"""


def upgrade() -> None:
    op.create_table(
        "site_tunnels",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("a_gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("b_gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("a_targets", postgresql.JSONB(), nullable=False),
        sa.Column("b_targets", postgresql.JSONB(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("soft_packets", sa.BigInteger(), nullable=False),
        sa.Column("soft_bytes", sa.BigInteger(), nullable=False),
        sa.Column("soft_seconds", sa.Integer(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "down",
                "switching",
                "up",
                name="sitetunnelstate",
                native_enum=False,
                create_constraint=True,
                length=None,
            ),
            nullable=False,
        ),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("a_gateway_id <> b_gateway_id", name=op.f("ck_site_tunnels_joins_two_gateways")),
        sa.CheckConstraint("generation >= 0", name=op.f("ck_site_tunnels_generation_counts_from_0")),
        sa.CheckConstraint(
            "soft_packets >= 0 AND soft_bytes >= 0 AND soft_seconds >= 0",
            name=op.f("ck_site_tunnels_limits_are_not_negative"),
        ),
        sa.ForeignKeyConstraint(
            ["a_gateway_id"],
            ["gateways.id"],
            name="fk_site_tunnels_a_gateway_id_gateways",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["b_gateway_id"],
            ["gateways.id"],
            name="fk_site_tunnels_b_gateway_id_gateways",
            ondelete="RESTRICT",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_site_tunnels"),
        sa.UniqueConstraint("name", name="uq_site_tunnels_name"),
    )
    for end in ("a_gateway_id", "b_gateway_id"):
        op.create_index(f"ix_site_tunnels_{end}", "site_tunnels", [end])
    op.execute(_COUNT)
    op.add_column("security_associations", sa.Column("site_tunnel_id", sa.Uuid(), nullable=True))
    op.create_foreign_key(
        "fk_security_associations_site_tunnel_id_site_tunnels",
        "security_associations",
        "site_tunnels",
        ["site_tunnel_id"],
        ["id"],
        ondelete="CASCADE",
    )
    op.create_unique_constraint(_UNIQUE, "security_associations", ["site_tunnel_id", *_BETWEEN])
    for column in ("tunnel_id", "device_id"):
        op.alter_column("security_associations", column, nullable=True)
    op.create_check_constraint(
        _OF_ONE,
        "security_associations",
        "num_nonnulls(tunnel_id, site_tunnel_id) = 1 AND (tunnel_id IS NULL) = (device_id IS NULL)",
    )
    op.drop_constraint(_TAG, "security_associations", type_="check")
    op.create_check_constraint(
        _TAG,
        "security_associations",
        "tag BETWEEN 1 AND 4294967295 OR (tag = 0 AND site_tunnel_id IS NOT NULL)",
    )


def downgrade() -> None:
    op.execute("DELETE FROM security_associations WHERE tunnel_id IS NULL")
    op.drop_constraint(_TAG, "security_associations", type_="check")
    op.create_check_constraint(_TAG, "security_associations", "tag BETWEEN 1 AND 4294967295")
    op.drop_constraint(_OF_ONE, "security_associations", type_="check")
    for column in ("tunnel_id", "device_id"):
        op.alter_column("security_associations", column, nullable=False)
    op.drop_column("security_associations", "site_tunnel_id")
    op.drop_table("site_tunnels")
