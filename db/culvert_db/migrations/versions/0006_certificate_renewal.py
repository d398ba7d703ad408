"""A device's next certificate, from its issue until the device shows it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("devices", sa.Column("next_fingerprint", sa.LargeBinary(), nullable=True))
    op.add_column("devices", sa.Column("next_serial", sa.Text(), nullable=True))
    op.add_column("devices", sa.Column("next_expires_at", sa.DateTime(timezone=True), nullable=True))
    op.create_unique_constraint("uq_devices_next_fingerprint", "devices", ["next_fingerprint"])
    op.create_check_constraint(
        op.f("ck_devices_next_fingerprint_is_sha256"), "devices", "octet_length(next_fingerprint) = 32"
    )


def downgrade() -> None:
    for column in ("next_expires_at", "next_serial", "next_fingerprint"):
        op.drop_column("devices", column)
