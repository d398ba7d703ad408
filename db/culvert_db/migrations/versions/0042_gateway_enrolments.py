"""Enrolments of gateways, and the key that a gateway has joined with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("gateways", sa.Column("key_hash", sa.LargeBinary()))
    op.create_unique_constraint("uq_gateways_key_hash", "gateways", ["key_hash"])
    op.create_table(
        "gateway_enrolments",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("gateway", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("pool", postgresql.CIDR()),
        sa.Column("pool6", postgresql.CIDR()),
        sa.Column("suite", sa.Text()),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column("created_at", _MOMENT, server_default=sa.func.now(), nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.Column("used_at", _MOMENT),
        sa.Column("key_hash", sa.LargeBinary()),
        sa.CheckConstraint(
            "octet_length(token_hash) = 32", name="ck_gateway_enrolments_token_hash_is_sha256"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_gateway_enrolments"),
        sa.UniqueConstraint("gateway", name="uq_gateway_enrolments_gateway"),
        sa.UniqueConstraint("token_hash", name="uq_gateway_enrolments_token_hash"),
    )


def downgrade() -> None:
    op.drop_table("gateway_enrolments")
    op.drop_constraint("uq_gateways_key_hash", "gateways")
    op.drop_column("gateways", "key_hash")
