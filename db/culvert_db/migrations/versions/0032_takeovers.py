"""Unfinished accounts with an end, invitations with their maker, wrong codes after the right password, notices."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_AT = sa.DateTime(timezone=True)


def _admin(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["admin_id"], ["admins.id"], name=f"fk_{table}_admin_id_admins", ondelete="CASCADE"
    )


def upgrade() -> None:
    op.add_column("admins", sa.Column("code_failures", sa.Integer(), server_default="0", nullable=False))
    for column in ("code_failed_at", "code_locked_until", "setup_until"):
        op.add_column("admins", sa.Column(column, _AT))
    op.execute("UPDATE admins SET setup_until = now() + interval '1 day' WHERE confirmed_at IS NULL")
    op.add_column(
        "admin_invitations", sa.Column("created_at", _AT, server_default=sa.text("now()"), nullable=False)
    )
    op.add_column("admin_invitations", sa.Column("created_by", sa.Text()))
    op.create_table(
        "admin_wrong_codes",
        sa.Column("admin_id", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_at", _AT, nullable=False),
        _admin("admin_wrong_codes"),
        sa.PrimaryKeyConstraint("admin_id", "source", name="pk_admin_wrong_codes"),
    )
    op.create_table(
        "admin_notices",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("admin_id", sa.BigInteger(), nullable=False),
        sa.Column("at", _AT, server_default=sa.text("now()"), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("source", sa.Text()),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.Column("details", postgresql.JSONB(), nullable=False),
        _admin("admin_notices"),
        sa.PrimaryKeyConstraint("id", name="pk_admin_notices"),
    )
    op.create_index("ix_admin_notices_admin_id", "admin_notices", ["admin_id"])


def downgrade() -> None:
    for table in ("admin_notices", "admin_wrong_codes"):
        op.drop_table(table)
    for column in ("created_by", "created_at"):
        op.drop_column("admin_invitations", column)
    for column in ("setup_until", "code_locked_until", "code_failed_at", "code_failures"):
        op.drop_column("admins", column)
