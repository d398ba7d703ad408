"""Recovery codes of administrators."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "admin_recovery_codes",
        sa.Column("admin_id", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["admin_id"], ["admins.id"], name="fk_admin_recovery_codes_admin_id_admins", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("admin_id", "hash", name="pk_admin_recovery_codes"),
    )


def downgrade() -> None:
    op.drop_table("admin_recovery_codes")
