"""Recovery codes of devices, and how far an authenticator's clock is off."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("totp", sa.Column("drift_steps", sa.Integer(), server_default="0", nullable=False))
    op.create_table(
        "recovery_codes",
        sa.Column("device_id", sa.Uuid(), nullable=False),
        sa.Column("code_hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("device_id", "code_hash", name="pk_recovery_codes"),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name="fk_recovery_codes_device_id_devices", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    op.drop_table("recovery_codes")
    op.drop_column("totp", "drift_steps")
