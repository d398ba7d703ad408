"""Assertions about access that each change has to keep true (decision 83)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

_FOLLOW = """
CREATE FUNCTION culvert_follow_group_name() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- One about an earlier group of the new name stays.
    UPDATE assertions SET group_name = NEW.name WHERE group_name = OLD.name AND NOT EXISTS (
        SELECT FROM assertions AS other WHERE other.group_name = NEW.name AND other.fqdn = assertions.fqdn
    );
    RETURN NULL;
END
$$
"""


def upgrade() -> None:
    op.create_table(
        "assertions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("user_name", sa.Text()),
        sa.Column("group_name", sa.Text()),
        sa.Column("fqdn", sa.Text(), nullable=False),
        sa.Column("names", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("reaches", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "num_nonnulls(group_name, user_name) = 1",
            name=op.f("ck_assertions_is_about_a_group_or_a_person"),
        ),
        sa.PrimaryKeyConstraint("id", name="pk_assertions"),
        sa.UniqueConstraint("user_name", "fqdn", name="uq_assertions_user_name_fqdn"),
        sa.UniqueConstraint("group_name", "fqdn", name="uq_assertions_group_name_fqdn"),
    )
    op.execute(_FOLLOW)
    op.execute(
        "CREATE TRIGGER culvert_follow_group_name AFTER UPDATE OF name ON groups FOR EACH ROW "
        "WHEN (OLD.name IS DISTINCT FROM NEW.name) EXECUTE FUNCTION culvert_follow_group_name()"
    )


def downgrade() -> None:
    op.execute("DROP FUNCTION culvert_follow_group_name CASCADE")
    op.drop_table("assertions")
