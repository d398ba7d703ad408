"""At which controller a device watches, and until when that holds unless it is said again."""

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
