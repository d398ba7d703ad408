"""The gateway from which a failover has moved a tunnel."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tunnels", sa.Column("moved_from", sa.Text()))


def downgrade() -> None:
    op.drop_column("tunnels", "moved_from")
