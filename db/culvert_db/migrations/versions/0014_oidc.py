"""Administrators by OpenID Connect: accounts that have no password of ours."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_SECRETS = (("password_hash", sa.Text()), ("secret_ciphertext", sa.LargeBinary()))


def upgrade() -> None:
    op.create_table(
        "admin_identities",
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("admin_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["admin_id"], ["admins.id"], name="fk_admin_identities_admin_id_admins", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("issuer", "subject", name="pk_admin_identities"),
    )
    op.create_index("ix_admin_identities_admin_id", "admin_identities", ["admin_id"])
    for column, kind in _SECRETS:
        op.alter_column("admins", column, existing_type=kind, nullable=True)


def downgrade() -> None:
    op.drop_table("admin_identities")
    op.execute("DELETE FROM admins WHERE password_hash IS NULL")
    for column, kind in _SECRETS:
        op.alter_column("admins", column, existing_type=kind, nullable=False)
