"""An invitation's device, so that the device can ask again when the answer was lost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("invitations", sa.Column("device_id", sa.Uuid()))
    op.add_column("invitations", sa.Column("key_hash", sa.LargeBinary()))
    op.create_foreign_key(
        "fk_invitations_device_id_devices",
        "invitations",
        "devices",
        ["device_id"],
        ["id"],
        ondelete="SET NULL",
    )


def downgrade() -> None:
    op.drop_constraint("fk_invitations_device_id_devices", "invitations")
    op.drop_column("invitations", "key_hash")
    op.drop_column("invitations", "device_id")
