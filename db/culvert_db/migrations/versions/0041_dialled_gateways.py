"""Gateways that connect to the controllers themselves, and the controllers that they are connected to (decision 62)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.alter_column("gateways", "p4runtime_address", nullable=True)
    op.create_table(
        "gateway_connections",
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("gateway_id", "holder", name="pk_gateway_connections"),
        sa.ForeignKeyConstraint(
            ["gateway_id"],
            ["gateways.id"],
            name="fk_gateway_connections_gateway_id_gateways",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["holder"],
            ["controllers.holder"],
            name="fk_gateway_connections_holder_controllers",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    """A gateway that connects itself gets an address at which nothing is, until an administrator sets the right one."""
    op.drop_table("gateway_connections")
    op.execute(
        "UPDATE gateways SET p4runtime_address = 'gateway-' || id || '.invalid:9559' "
        "WHERE p4runtime_address IS NULL"
    )
    op.alter_column("gateways", "p4runtime_address", nullable=False)
