"""The controller at which a device watches, and the end of this report unless it is repeated."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("devices", sa.Column("watched_by", sa.Text()))
    op.add_column("devices", sa.Column("watched_until", sa.DateTime(timezone=True)))


def downgrade() -> None:
    op.drop_column("devices", "watched_until")
    op.drop_column("devices", "watched_by")
