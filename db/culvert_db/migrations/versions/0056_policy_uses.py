"""The day on which each policy was last used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "policy_uses",
        sa.Column("policy_id", sa.BigInteger(), nullable=False),
        sa.Column("counted_from", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("last_used_on", sa.Date()),
        sa.ForeignKeyConstraint(
            ["policy_id"], ["policies.id"], name="fk_policy_uses_policy_id_policies", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("policy_id", name="pk_policy_uses"),
    )
    # No use before this moment is known.
    op.execute("INSERT INTO policy_uses (policy_id) SELECT id FROM policies")


def downgrade() -> None:
    op.drop_table("policy_uses")
