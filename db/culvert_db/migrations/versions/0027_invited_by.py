"""An invitation knows who gave it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("invitations", sa.Column("invited_by", sa.Text()))


def downgrade() -> None:
    op.drop_column("invitations", "invited_by")
