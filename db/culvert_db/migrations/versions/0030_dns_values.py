"""For a record that is not live: the wanted value, and the value in the zone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("wanted", "found"):
        op.add_column("dns_records", sa.Column(column, postgresql.JSONB(none_as_null=True)))


def downgrade() -> None:
    for column in ("wanted", "found"):
        op.drop_column("dns_records", column)
