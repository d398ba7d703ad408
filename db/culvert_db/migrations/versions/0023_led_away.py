"""Tunnels whose resource was given other gateways, or another order of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tunnels", sa.Column("led_away", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_index("ix_tunnels_led_away", "tunnels", ["gateway_id"], postgresql_where=sa.text("led_away"))


def downgrade() -> None:
    op.drop_index("ix_tunnels_led_away", table_name="tunnels")
    op.drop_column("tunnels", "led_away")
