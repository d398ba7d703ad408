"""Passkeys of administrators."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "admin_passkeys",
        sa.Column("credential_id", sa.LargeBinary(), nullable=False),
        sa.Column("admin_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("sign_count", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        _of_admin("admin_passkeys"),
        sa.PrimaryKeyConstraint("credential_id", name="pk_admin_passkeys"),
    )
    op.create_index("ix_admin_passkeys_admin_id", "admin_passkeys", ["admin_id"])
    op.create_table(
        "admin_challenges",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("admin_id", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        _of_admin("admin_challenges"),
        sa.PrimaryKeyConstraint("hash", name="pk_admin_challenges"),
    )
    op.create_index("ix_admin_challenges_admin_id", "admin_challenges", ["admin_id"])
    op.create_index("ix_admin_challenges_expires_at", "admin_challenges", ["expires_at"])


def downgrade() -> None:
    op.drop_table("admin_challenges")
    op.drop_table("admin_passkeys")


def _of_admin(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["admin_id"], ["admins.id"], name=f"fk_{table}_admin_id_admins", ondelete="CASCADE"
    )
