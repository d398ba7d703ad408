"""The path MTU between a tunnel's device and its gateway, as the device has measured it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tunnels", sa.Column("path_mtu", sa.Integer()))
    op.create_check_constraint("path_mtu_is_useful", "tunnels", "path_mtu BETWEEN 1280 AND 65535")


def downgrade() -> None:
    op.drop_column("tunnels", "path_mtu")
