"""A gateway's next key-encryption key beside the present one, and the names of controllers, which no gateway may have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

_MOMENTS = ("bundled_at", "rekeying_since")
# The columns that an administrator describes. A renewed key does not make an administrator's view stale.
_DESCRIBED = (
    "name, kind, address, address6, p4runtime_address, p4runtime_device_id, pool, pool6, wan, lan, suite, legacy_suites, "
    "draining_since, version"
)
_TRIGGER = """
CREATE TRIGGER culvert_count_version BEFORE UPDATE {columns} ON gateways
FOR EACH ROW EXECUTE FUNCTION culvert_count_version()
"""


def upgrade() -> None:
    op.add_column("gateways", sa.Column("next_kek_ciphertext", sa.LargeBinary()))
    for column in _MOMENTS:
        op.add_column("gateways", sa.Column(column, sa.DateTime(timezone=True)))
    # Earlier bundles were not recorded, so each gateway counts as having one.
    op.execute("UPDATE gateways SET bundled_at = created_at")
    op.execute("DROP TRIGGER culvert_count_version ON gateways")
    op.execute(_TRIGGER.format(columns=f"OF {_DESCRIBED}"))
    op.create_table(
        "controller_names",
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_controller_names"),
    )


def downgrade() -> None:
    op.drop_table("controller_names")
    op.execute("DROP TRIGGER culvert_count_version ON gateways")
    op.execute(_TRIGGER.format(columns=""))
    for column in (*_MOMENTS, "next_kek_ciphertext"):
        op.drop_column("gateways", column)
