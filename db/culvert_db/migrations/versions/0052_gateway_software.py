"""The version of each gateway's software."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gateway_health", sa.Column("software", sa.Text()))


def downgrade() -> None:
    op.drop_column("gateway_health", "software")
