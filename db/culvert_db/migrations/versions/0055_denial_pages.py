"""The zones in which a refused name shows a page, as administrators switch them (decision 81)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0053"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "denial_pages",
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("shown", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("origin", name="pk_denial_pages"),
    )


def downgrade() -> None:
    op.drop_table("denial_pages")
