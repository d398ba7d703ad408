"""The newest revision that each running controller knows (docs/upgrades.md)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("controllers", sa.Column("revision", sa.Text()))


def downgrade() -> None:
    op.drop_column("controllers", "revision")
