"""The audit log. A trigger gives each line its place and hash; others refuse what would change one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# A netstring, so that no two lines have the same bytes; "-" for what is absent.
_FIELD = """
CREATE FUNCTION audit_field(value text) RETURNS bytea IMMUTABLE LANGUAGE sql AS $$
    SELECT coalesce(convert_to(octet_length(convert_to(value, 'UTF8')) || ':' || value || ',', 'UTF8'), '-'::bytea)
$$
"""
# A connection has one chain, so that a transaction holds one lock of these and none can wait for another in a circle.
# The lock ends with the transaction; the statement after it sees what its last holder has committed.
_APPEND = """
CREATE FUNCTION append_to_audit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last audit_lines%ROWTYPE;
BEGIN
    NEW.chain := pg_backend_pid() % 16;
    PERFORM pg_advisory_xact_lock(450051, NEW.chain);
    SELECT * INTO last FROM audit_lines WHERE chain = NEW.chain ORDER BY seq DESC LIMIT 1;
    NEW.seq := coalesce(last.seq, 0) + 1;
    NEW.at := greatest(clock_timestamp(), last.at);
    NEW.hash := sha256(
        coalesce(last.hash, decode(repeat('00', 32), 'hex'))
        || audit_field(NEW.chain::text)
        || audit_field(NEW.seq::text)
        || audit_field(to_char(NEW.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
        || audit_field(NEW.actor_kind)
        || audit_field(NEW.actor)
        || audit_field(NEW.source)
        || audit_field(NEW.action)
        || audit_field(NEW.object)
        || audit_field(NEW.outcome)
        || audit_field(NEW.reason)
        || audit_field(NEW.why)
        || audit_field(NEW.details)
    );
    RETURN NEW;
END $$
"""
_REFUSE = """
CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END $$
"""
_APPEND_TRIGGER = """
CREATE TRIGGER audit_lines_append BEFORE INSERT ON audit_lines FOR EACH ROW EXECUTE FUNCTION append_to_audit()
"""
_REFUSE_TRIGGER = """
CREATE TRIGGER audit_lines_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_lines
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit()
"""


def _states(name: str, *values: str) -> sa.Enum:
    return sa.Enum(*values, name=name, native_enum=False, create_constraint=True, length=None)


def upgrade() -> None:
    op.create_table(
        "audit_lines",
        sa.Column("chain", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "actor_kind", _states("actorkind", "token", "device", "invitation", "system"), nullable=False
        ),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.Column("outcome", _states("outcome", "done", "denied"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chain", "seq", name="pk_audit_lines"),
    )
    op.create_index("ix_audit_lines_at_chain_seq", "audit_lines", ["at", "chain", "seq"])
    for statement in (_FIELD, _APPEND, _REFUSE, _APPEND_TRIGGER, _REFUSE_TRIGGER):
        op.execute(statement)


def downgrade() -> None:
    op.drop_table("audit_lines")
    for function in ("append_to_audit()", "refuse_change_of_audit()", "audit_field(text)"):
        op.execute(f"DROP FUNCTION {function}")
