"""A resource that changes in its place is told to devices by the count of policy changes."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

# The columns of a resource that a device's profile contains.
_COUNT = """
CREATE TRIGGER culvert_count_policy_change AFTER UPDATE OF fqdn, targets ON resources
FOR EACH STATEMENT EXECUTE FUNCTION culvert_count_policy_change()
"""


def upgrade() -> None:
    op.execute(_COUNT)


def downgrade() -> None:
    op.execute("DROP TRIGGER culvert_count_policy_change ON resources")
