"""Gateways of a resource by weight."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_CHECK = op.f("ck_resource_gateways_weight_is_a_share")


def upgrade() -> None:
    op.add_column("resource_gateways", sa.Column("weight", sa.Integer(), nullable=True))
    op.create_check_constraint(_CHECK, "resource_gateways", "weight BETWEEN 0 AND 1000")


def downgrade() -> None:
    op.drop_constraint(_CHECK, "resource_gateways", type_="check")
    op.drop_column("resource_gateways", "weight")
