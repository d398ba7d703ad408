"""Administrators, and the audit log. A trigger gives each line its place and hash; others refuse what would change one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

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


def _roles() -> sa.Enum:
    return _states("role", "owner", "admin", "auditor")


def upgrade() -> None:
    op.create_table(
        "audit_lines",
        sa.Column("chain", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "actor_kind",
            _states("actorkind", "admin", "token", "device", "invitation", "system"),
            nullable=False,
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
    op.create_table(
        "admins",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", _roles(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("secret_ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("last_used_step", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("confirmed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_admins"),
        sa.UniqueConstraint("name", name="uq_admins_name"),
    )
    op.create_table(
        "admin_invitations",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("role", _roles(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_admin_invitations"),
    )
    op.create_table(
        "admin_sessions",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("admin_id", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["admin_id"], ["admins.id"], name="fk_admin_sessions_admin_id_admins", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_hash", name="pk_admin_sessions"),
    )
    op.create_index("ix_admin_sessions_admin_id", "admin_sessions", ["admin_id"])
    op.create_table(
        "sign_in_guesses",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("locked_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", "source", name="pk_sign_in_guesses"),
    )
    op.create_index("ix_sign_in_guesses_last_at", "sign_in_guesses", ["last_at"])
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_api_tokens"),
        sa.UniqueConstraint("name", name="uq_api_tokens_name"),
        sa.UniqueConstraint("token_hash", name="uq_api_tokens_token_hash"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("media_type", sa.Text(), nullable=True),
        sa.Column("body_ciphertext", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("caller", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_claimed_at", "idempotency_keys", ["claimed_at"])
    for statement in (_FIELD, _APPEND, _REFUSE, _APPEND_TRIGGER, _REFUSE_TRIGGER):
        op.execute(statement)


def downgrade() -> None:
    for table in (
        "idempotency_keys",
        "api_tokens",
        "sign_in_guesses",
        "admin_sessions",
        "admin_invitations",
        "admins",
        "audit_lines",
    ):
        op.drop_table(table)
    for function in ("append_to_audit()", "refuse_change_of_audit()", "audit_field(text)"):
        op.execute(f"DROP FUNCTION {function}")
