"""E-mail addresses in their one spelling (decision 42)."""

from __future__ import annotations

import logging

import sqlalchemy as sa
from alembic import op
from culvert_proto.dns_name import canonical

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

_log = logging.getLogger(__name__)


def upgrade() -> None:
    """People who then have one address keep it, and are told: neither enrols by a sign-in until one has another."""
    users = sa.table("users", sa.column("id"), sa.column("name"), sa.column("email"))
    people: dict[str, list[str]] = {}
    rows = op.get_bind().execute(sa.select(users.c.id, users.c.name, users.c.email).order_by(users.c.name))
    for number, name, spelt in rows.all():
        local, _, domain = spelt.rpartition("@")
        wanted = f"{local.lower()}@{canonical(domain)}"
        people.setdefault(wanted, []).append(name)
        if wanted != spelt:
            op.execute(users.update().where(users.c.id == number).values(email=wanted))
    for email, names in people.items():
        if len(names) > 1:
            _log.warning(
                "%s have the e-mail address %s: none of them can enrol by a sign-in at a provider of OpenID Connect. "
                "Give each an address of their own",
                " and ".join(names),
                email,
            )


def downgrade() -> None:
    """Addresses stay as they are: how they were spelt is not known any more."""
