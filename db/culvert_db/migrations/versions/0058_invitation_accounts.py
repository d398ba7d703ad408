"""The account that an administrator's invitation has made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("admin_invitations", sa.Column("admin_id", sa.BigInteger()))
    op.create_foreign_key(
        "fk_admin_invitations_admin_id_admins",
        "admin_invitations",
        "admins",
        ["admin_id"],
        ["id"],
        ondelete="SET NULL",
    )
    op.create_unique_constraint("uq_admin_invitations_admin_id", "admin_invitations", ["admin_id"])


def downgrade() -> None:
    op.drop_column("admin_invitations", "admin_id")
