"""The traffic and the tunnels of each gateway, sample by sample."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None

_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "received_bytes": sa.BigInteger(),
    "sent_bytes": sa.BigInteger(),
    "seconds": sa.Double(),
    "tunnels": sa.Integer(),
}


def upgrade() -> None:
    for name, kind in _COLUMNS.items():
        op.add_column("gateway_samples", sa.Column(name, kind))


def downgrade() -> None:
    for name in _COLUMNS:
        op.drop_column("gateway_samples", name)
