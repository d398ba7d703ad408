"""A version for each thing that an administrator can change. Triggers count it, whoever changes the thing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_THINGS = ("devices", "dns_zones", "gateways", "groups", "policies", "resources", "users")
# A device's report about itself does not make an administrator's view of it stale.
_OF_DEVICES = "OF user_id, name, state"
# (table, column, table of the row that these rows are a part of)
_PARTS = (
    ("dns_zone_resources", "zone_id", "dns_zones"),
    ("group_members", "group_id", "groups"),
    ("policy_resources", "policy_id", "policies"),
    ("resource_gateways", "resource_id", "resources"),
)

_COUNT = """
CREATE FUNCTION culvert_count_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END
$$
"""
_COUNT_TRIGGER = """
CREATE TRIGGER culvert_count_version BEFORE UPDATE {columns} ON {table}
FOR EACH ROW EXECUTE FUNCTION culvert_count_version()
"""
# The update of the thing counts: the trigger above.
_COUNT_PART = """
CREATE FUNCTION culvert_count_version_of_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {table} SET version = version WHERE id IN (SELECT {column} FROM changed);
    RETURN NULL;
END
$$
"""
_COUNT_PART_TRIGGER = """
CREATE TRIGGER culvert_count_version_{what} AFTER {event} ON {part} REFERENCING {rows} TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION culvert_count_version_of_{table}()
"""
_EVENTS = (("inserted", "INSERT", "NEW"), ("deleted", "DELETE", "OLD"), ("updated", "UPDATE", "NEW"))


def upgrade() -> None:
    op.execute(_COUNT)
    for table in _THINGS:
        op.add_column(table, sa.Column("version", sa.BigInteger(), server_default="1", nullable=False))
        columns = _OF_DEVICES if table == "devices" else ""
        op.execute(_COUNT_TRIGGER.format(table=table, columns=columns))
    for part, column, table in _PARTS:
        op.execute(_COUNT_PART.format(table=table, column=column))
        for what, event, rows in _EVENTS:
            op.execute(_COUNT_PART_TRIGGER.format(what=what, event=event, rows=rows, part=part, table=table))


def downgrade() -> None:
    for part, _, table in _PARTS:
        for what, _, _ in _EVENTS:
            op.execute(f"DROP TRIGGER culvert_count_version_{what} ON {part}")
        op.execute(f"DROP FUNCTION culvert_count_version_of_{table}")
    for table in _THINGS:
        op.execute(f"DROP TRIGGER culvert_count_version ON {table}")
        op.drop_column(table, "version")
    op.execute("DROP FUNCTION culvert_count_version")
