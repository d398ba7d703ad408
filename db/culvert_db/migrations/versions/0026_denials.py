"""Find the last refusal of a person and a resource without reading the whole log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_audit_lines_denied",
        "audit_lines",
        ["actor", "at"],
        postgresql_where=sa.text("outcome = 'denied'"),
    )


def downgrade() -> None:
    op.drop_index("ix_audit_lines_denied", "audit_lines")
