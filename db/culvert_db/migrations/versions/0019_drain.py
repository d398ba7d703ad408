"""Gateways that drain, and tunnels that leave them while their successors are up already."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_STATE_CHECK = op.f("ck_tunnels_tunnelstate")
_ONE = "uq_tunnels_device_id_resource_id"


def upgrade() -> None:
    op.add_column("gateways", sa.Column("draining_since", sa.DateTime(timezone=True), nullable=True))
    op.drop_constraint(_STATE_CHECK, "tunnels", type_="check")
    op.create_check_constraint(_STATE_CHECK, "tunnels", "state IN ('up', 'renewing', 'leaving')")
    op.drop_constraint(_ONE, "tunnels", type_="unique")
    where = sa.text("state <> 'leaving'")
    op.create_index(_ONE, "tunnels", ["device_id", "resource_id"], unique=True, postgresql_where=where)


def downgrade() -> None:
    op.execute("DELETE FROM tunnels WHERE state = 'leaving'")
    op.drop_index(_ONE, "tunnels")
    op.create_unique_constraint(_ONE, "tunnels", ["device_id", "resource_id"])
    op.drop_constraint(_STATE_CHECK, "tunnels", type_="check")
    op.create_check_constraint(_STATE_CHECK, "tunnels", "state IN ('up', 'renewing')")
    op.drop_column("gateways", "draining_since")
