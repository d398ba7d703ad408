"""Gateways whose address for devices is not their own (decision 68)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

_BEFORE = (
    "name, kind, address, address6, p4runtime_address, p4runtime_device_id, pool, pool6, wan, lan, suite, legacy_suites, "
    "draining_since, version"
)


def _count_versions(columns: str) -> None:
    """By changes of the columns that an administrator describes."""
    op.execute("DROP TRIGGER culvert_count_version ON gateways")
    op.execute(
        f"CREATE TRIGGER culvert_count_version BEFORE UPDATE OF {columns} ON gateways "
        "FOR EACH ROW EXECUTE FUNCTION culvert_count_version()"
    )


def upgrade() -> None:
    for own in ("address", "address6"):
        op.add_column("gateways", sa.Column(f"public_{own}", postgresql.INET()))
        op.drop_constraint(f"uq_gateways_{own}", "gateways")
        # The name stays, because programs know the field by it.
        op.create_index(
            f"uq_gateways_{own}", "gateways", [sa.text(f"coalesce(public_{own}, {own})")], unique=True
        )
    _count_versions(f"{_BEFORE}, public_address, public_address6")


def downgrade() -> None:
    """Fails while two gateways have the same address of their own."""
    _count_versions(_BEFORE)
    for own in ("address", "address6"):
        op.drop_index(f"uq_gateways_{own}", "gateways")
        op.create_unique_constraint(f"uq_gateways_{own}", "gateways", [own])
        op.drop_column("gateways", f"public_{own}")
