"""IPv6 inside of tunnels: a second pool of gateways, a second address of devices."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gateways", sa.Column("pool6", postgresql.CIDR(), nullable=True))
    op.add_column("addresses", sa.Column("address6", postgresql.INET(), nullable=True))
    op.create_unique_constraint("uq_addresses_gateway_id_address6", "addresses", ["gateway_id", "address6"])


def downgrade() -> None:
    op.drop_column("addresses", "address6")
    op.drop_column("gateways", "pool6")
