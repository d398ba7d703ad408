"""Leases of gateways, and how their holders find them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "gateway_leases",
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("holder_name", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("gateway_id", name="pk_gateway_leases"),
        _of_gateway("gateway_leases"),
    )
    op.create_table(
        "gateway_health",
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("online", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reconciled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("drifts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("drifted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("missing", sa.Integer(), server_default="0", nullable=False),
        sa.Column("foreign", sa.Integer(), server_default="0", nullable=False),
        sa.Column("changed", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("gateway_id", name="pk_gateway_health"),
        _of_gateway("gateway_health"),
    )


def downgrade() -> None:
    op.drop_table("gateway_health")
    op.drop_table("gateway_leases")


def _of_gateway(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["gateway_id"], ["gateways.id"], name=f"fk_{table}_gateway_id_gateways", ondelete="CASCADE"
    )
