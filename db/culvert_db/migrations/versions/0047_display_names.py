"""Display names of people, and names of devices without characters that turn the direction of text."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from culvert_proto.typed_text import strip

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("users", sa.Column("display_name", sa.Text()))
    devices = sa.table("devices", sa.column("id"), sa.column("name"))
    for device, name in op.get_bind().execute(sa.select(devices.c.id, devices.c.name)).all():
        if (plain := strip(name) or "computer") != name:
            op.execute(devices.update().where(devices.c.id == device).values(name=plain))


def downgrade() -> None:
    op.drop_column("users", "display_name")
