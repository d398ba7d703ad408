"""The kind of a gateway's switch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gateways", sa.Column("kind", sa.Text(), server_default="sluice", nullable=False))


def downgrade() -> None:
    op.drop_column("gateways", "kind")
