"""Neighbours whose MAC addresses a gateway finds, and keeps finding (decision 76)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

_BEFORE = (
    "name, kind, address, address6, p4runtime_address, p4runtime_device_id, pool, pool6, wan, lan, suite, legacy_suites, "
    "draining_since, version, public_address, public_address6"
)


def _count_versions(columns: str) -> None:
    """By changes of the columns that an administrator describes."""
    op.execute("DROP TRIGGER culvert_count_version ON gateways")
    op.execute(
        f"CREATE TRIGGER culvert_count_version BEFORE UPDATE OF {columns} ON gateways "
        "FOR EACH ROW EXECUTE FUNCTION culvert_count_version()"
    )


def upgrade() -> None:
    op.add_column(
        "gateways", sa.Column("resolves", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False)
    )
    _count_versions(f"{_BEFORE}, resolves")
    op.create_table(
        "gateway_neighbours",
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("side", sa.Text(), nullable=False),
        sa.Column("address", postgresql.INET(), nullable=False),
        sa.Column("mac", sa.Text()),
        sa.Column("silent_since", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(
            ["gateway_id"],
            ["gateways.id"],
            name="fk_gateway_neighbours_gateway_id_gateways",
            ondelete="CASCADE",
        ),
        sa.CheckConstraint("side IN ('wan', 'lan')", name="ck_gateway_neighbours_side_is_known"),
        sa.PrimaryKeyConstraint("gateway_id", "side", "address", name="pk_gateway_neighbours"),
    )


def downgrade() -> None:
    op.drop_table("gateway_neighbours")
    _count_versions(_BEFORE)
    op.drop_column("gateways", "resolves")
