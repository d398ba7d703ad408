"""A resource has several targets instead of one address, and a suite of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_TARGETS = """
UPDATE resources SET targets = jsonb_build_array(jsonb_build_object('prefix', host(address) || '/' ||
    CASE family(address) WHEN 4 THEN '32' ELSE '128' END))
"""
# The older table has room for one address, and none for what has no host among its targets or stands for many names.
_NARROW = """
UPDATE resources SET address = (
    SELECT target ->> 'prefix' FROM jsonb_array_elements(targets) AS target
    WHERE masklen((target ->> 'prefix')::inet) = CASE family((target ->> 'prefix')::inet) WHEN 4 THEN 32 ELSE 128 END
    LIMIT 1
)::inet
"""
_FORGET = (
    "DELETE FROM tunnels USING resources WHERE resources.id = resource_id AND (address IS NULL OR fqdn LIKE '*.%')",
    "DELETE FROM resources WHERE address IS NULL OR fqdn LIKE '*.%'",
)


def upgrade() -> None:
    op.add_column("resources", sa.Column("targets", postgresql.JSONB(), nullable=True))
    op.execute(_TARGETS)
    op.alter_column("resources", "targets", nullable=False)
    op.create_check_constraint(
        op.f("ck_resources_targets_are_a_list"),
        "resources",
        "jsonb_typeof(targets) = 'array' AND targets <> '[]'",
    )
    op.drop_column("resources", "address")
    op.add_column("resources", sa.Column("suite", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("resources", "suite")
    op.add_column("resources", sa.Column("address", postgresql.INET(), nullable=True))
    op.execute(_NARROW)
    for statement in _FORGET:
        op.execute(statement)
    op.alter_column("resources", "address", nullable=False)
    op.drop_constraint(op.f("ck_resources_targets_are_a_list"), "resources", type_="check")
    op.drop_column("resources", "targets")
