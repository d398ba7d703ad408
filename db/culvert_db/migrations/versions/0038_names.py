"""Names in their one spelling (decision 35), and that of resources also as people write them, to be searched."""

from __future__ import annotations

import logging

import sqlalchemy as sa
from alembic import op
from culvert_proto.dns_name import canonical, unicode
from sqlalchemy.exc import IntegrityError

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

_log = logging.getLogger(__name__)


def upgrade() -> None:
    op.add_column("resources", sa.Column("unicode_name", sa.Text(), nullable=False, server_default=""))
    resources = sa.table(
        "resources", sa.column("id"), sa.column("name"), sa.column("fqdn"), sa.column("unicode_name")
    )
    zones = sa.table("dns_zones", sa.column("id"), sa.column("name"), sa.column("origin"))
    _canonicalise(resources, resources.c.fqdn)
    _canonicalise(zones, zones.c.origin)
    encoded = sa.select(resources.c.id, resources.c.fqdn).where(resources.c.fqdn.contains("xn--"))
    for number, fqdn in op.get_bind().execute(encoded).all():
        op.execute(resources.update().where(resources.c.id == number).values(unicode_name=unicode(fqdn)))


def downgrade() -> None:
    op.drop_column("resources", "unicode_name")


def _canonicalise(table: sa.TableClause, column: sa.ColumnClause[str]) -> None:
    """A row whose name another one has in the DNS stays as it is, and is told: an administrator has to choose."""
    connection = op.get_bind()
    rows = connection.execute(sa.select(table.c.id, table.c.name, column).order_by(table.c.id)).all()
    for number, name, spelt in rows:
        if (wanted := canonical(spelt)) == spelt:
            continue
        try:
            with connection.begin_nested():
                connection.execute(table.update().where(table.c.id == number).values({column.name: wanted}))
        except IntegrityError:
            _log.warning(
                "%s: %s has the name %s, which is %s in the DNS, and so is another one's. It is unchanged and not "
                "reachable: give it another name, or delete it",
                table.name,
                name,
                spelt,
                wanted,
            )
