"""Certificates by ACME."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "acme_certificates",
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("account_key", sa.LargeBinary()),
        sa.Column("account_url", sa.Text()),
        sa.Column("order_url", sa.Text()),
        sa.Column("order_key", sa.LargeBinary()),
        sa.Column("challenge", sa.LargeBinary()),
        sa.Column("chain", sa.LargeBinary()),
        sa.Column("key", sa.LargeBinary()),
        sa.Column("issued_at", _MOMENT),
        sa.Column("renew_at", _MOMENT),
        sa.Column("ask_at", _MOMENT),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("attempt_at", _MOMENT),
        sa.Column("fault", sa.Text(), server_default="", nullable=False),
        sa.Column("holder", sa.Text()),
        sa.Column("held_until", _MOMENT),
        sa.PrimaryKeyConstraint("directory", "name", name="pk_acme_certificates"),
    )


def downgrade() -> None:
    op.drop_table("acme_certificates")
