"""Samples of gateways' counters, kept for a day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "gateway_samples",
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("drops", JSONB(), nullable=False),
        sa.Column("round_trip_us", sa.Integer()),
        sa.ForeignKeyConstraint(
            ["gateway_id"], ["gateways.id"], name="fk_gateway_samples_gateway_id_gateways", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("gateway_id", "at", name="pk_gateway_samples"),
    )


def downgrade() -> None:
    op.drop_table("gateway_samples")
