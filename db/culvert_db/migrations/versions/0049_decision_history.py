"""Earlier versions of the rows that a decision reads (decision 82)."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None


class _Recorded(NamedTuple):
    """`person`: the column by which a person's rows are found."""

    table: str
    key: tuple[str, ...]
    values: tuple[str, ...]
    person: str = "NULL"


_RECORDED = (
    _Recorded("users", ("id",), ("name",)),
    _Recorded(
        "devices",
        ("id",),
        (
            "user_id",
            "name",
            "state",
            "code_proven_at",
            "code_valid_until",
            "last_seen_address",
            "client_version",
            "posture",
            "created_at",
        ),
        "user_id",
    ),
    _Recorded("group_members", ("group_id", "user_id"), (), "user_id"),
    _Recorded("policies", ("id",), ("name", "enabled", "group_id", "user_id", "conditions")),
    _Recorded("policy_resources", ("policy_id", "resource_id"), ()),
    _Recorded("resources", ("id",), ("name", "fqdn", "owner")),
    _Recorded("resource_gateways", ("resource_id", "gateway_id"), ("position", "weight")),
    _Recorded("gateways", ("id",), ("name", "draining_since")),
    _Recorded("gateway_health", ("gateway_id",), ("online",)),
)


def _record(it: _Recorded) -> None:
    """Triggers, because they see the writes of each release, cascades, and statements by hand."""

    def insert(row: str, version: str) -> str:
        key = " || '/' || ".join(f"{row}.{column}" for column in it.key)
        person = it.person if it.person == "NULL" else f"{row}.{it.person}"
        return (
            "INSERT INTO decision_history (relation, key, person, until, version) "  # noqa: S608
            f"VALUES ('{it.table}', {key}, {person}, now(), {version}); RETURN NULL;"
        )

    old = ", ".join(f"'{column}', OLD.{column}" for column in (*it.key, *it.values))
    op.execute(
        f"CREATE FUNCTION culvert_record_{it.table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF TG_OP = 'INSERT' THEN {insert('NEW', 'NULL')} END IF; "
        f"{insert('OLD', f'jsonb_build_object({old})')} END $$"
    )
    function = f"FOR EACH ROW EXECUTE FUNCTION culvert_record_{it.table}()"
    op.execute(f"CREATE TRIGGER culvert_record AFTER INSERT OR DELETE ON {it.table} {function}")
    if it.values:
        before, after = (", ".join(f"{row}.{column}" for column in it.values) for row in ("OLD", "NEW"))
        op.execute(
            f"CREATE TRIGGER culvert_record_change AFTER UPDATE OF {', '.join(it.values)} ON {it.table} "
            f"FOR EACH ROW WHEN (({before}) IS DISTINCT FROM ({after})) "
            f"EXECUTE FUNCTION culvert_record_{it.table}()"
        )


def upgrade() -> None:
    op.create_table(
        "decision_history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("relation", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("person", sa.BigInteger()),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("version", postgresql.JSONB()),
        sa.PrimaryKeyConstraint("id", name="pk_decision_history"),
    )
    op.create_index("ix_decision_history_relation_until", "decision_history", ["relation", "until"])
    op.create_index("ix_decision_history_person_relation", "decision_history", ["person", "relation"])
    op.create_table(
        "decision_history_begin",
        sa.Column("only_row", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("begins_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("only_row", name=op.f("ck_decision_history_begin_has_one_row")),
        sa.PrimaryKeyConstraint("only_row", name="pk_decision_history_begin"),
    )
    for recorded in _RECORDED:
        _record(recorded)
    # Transactions that had begun before the triggers cannot write any more: the triggers' locks waited for them.
    op.execute("INSERT INTO decision_history_begin (begins_at) VALUES (clock_timestamp())")


def downgrade() -> None:
    for recorded in _RECORDED:
        op.execute(f"DROP FUNCTION culvert_record_{recorded.table} CASCADE")
    op.drop_table("decision_history_begin")
    op.drop_table("decision_history")
