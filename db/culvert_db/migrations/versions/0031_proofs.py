"""When the person of a session last proved to be the administrator, and where the session is used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("proven_at", "last_used_at"):
        op.add_column("admin_sessions", sa.Column(column, sa.DateTime(timezone=True)))
    op.execute("UPDATE admin_sessions SET proven_at = created_at, last_used_at = created_at")
    for column in ("proven_at", "last_used_at"):
        op.alter_column("admin_sessions", column, nullable=False)
    for column in ("source", "user_agent"):
        op.add_column("admin_sessions", sa.Column(column, sa.Text()))


def downgrade() -> None:
    for column in ("user_agent", "source", "last_used_at", "proven_at"):
        op.drop_column("admin_sessions", column)
