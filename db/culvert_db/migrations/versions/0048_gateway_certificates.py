"""The end of each gateway's certificate, for the alert before it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("certificate_expires_at", "next_certificate_expires_at"):
        op.add_column("gateways", sa.Column(name, sa.DateTime(timezone=True)))
    # The first certificate's end. A gateway may have a later one: then the alert comes early.
    op.execute("UPDATE gateways SET certificate_expires_at = bundled_at + interval '397 days'")


def downgrade() -> None:
    for name in ("certificate_expires_at", "next_certificate_expires_at"):
        op.drop_column("gateways", name)
