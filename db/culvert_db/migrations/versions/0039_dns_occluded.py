"""A state for names that their zone holds and does not serve: they are below a delegation or a DNAME."""

from __future__ import annotations

from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

_TABLES = ("dns_records", "dns_zone_status")
_OLD_STATES = ("pending", "live", "refused", "foreign", "unreachable")


def upgrade() -> None:
    _allow((*_OLD_STATES, "occluded"))


def downgrade() -> None:
    for table in _TABLES:
        # dns-updater writes them anew.
        op.execute(f"DELETE FROM {table} WHERE state = 'occluded'")  # noqa: S608
    _allow(_OLD_STATES)


def _allow(states: tuple[str, ...]) -> None:
    for table in _TABLES:
        name = op.f(f"ck_{table}_dnsstate")
        op.drop_constraint(name, table, type_="check")
        op.create_check_constraint(name, table, f"state IN {states}")
