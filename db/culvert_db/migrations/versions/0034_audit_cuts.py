"""Cuts of the audit log: old lines of a chain can be deleted only after a record of the cut was inserted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

# The database has no key, so it cannot check the record's signature; verification does.
_ADMIT = """
CREATE FUNCTION admit_cut_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last audit_cuts%ROWTYPE;
    line audit_lines%ROWTYPE;
BEGIN
    SELECT * INTO last FROM audit_cuts WHERE chain = NEW.chain ORDER BY number DESC LIMIT 1;
    SELECT * INTO line FROM audit_lines WHERE chain = NEW.chain AND seq = NEW.seq;
    IF NEW.number <> coalesce(last.number, 0) + 1
        OR NEW.lines <> NEW.seq - coalesce(last.seq, 0)
        OR NEW.hash IS DISTINCT FROM line.hash
        OR line.at >= NEW.before
        OR NEW.before > clock_timestamp() - interval '30 days'
        -- The next line of the chain needs the hash of the last.
        OR NOT EXISTS (SELECT FROM audit_lines WHERE chain = NEW.chain AND seq = NEW.seq + 1)
    THEN
        RAISE EXCEPTION 'the audit log is cut from its beginning, in order, and not of the last 30 days'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$
"""
_REFUSE_DELETE = """
CREATE FUNCTION refuse_deletion_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT chain, max(seq) AS seq FROM gone GROUP BY chain) AS most
        WHERE most.seq > coalesce((SELECT max(cut.seq) FROM audit_cuts AS cut WHERE cut.chain = most.chain), 0)
    ) THEN
        RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END $$
"""
_TRIGGERS = (
    "CREATE TRIGGER audit_cuts_admit BEFORE INSERT ON audit_cuts FOR EACH ROW EXECUTE FUNCTION admit_cut_of_audit()",
    """CREATE TRIGGER audit_cuts_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_cuts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit()""",
    "DROP TRIGGER audit_lines_refuse ON audit_lines",
    """CREATE TRIGGER audit_lines_refuse BEFORE UPDATE OR TRUNCATE ON audit_lines
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit()""",
    """CREATE TRIGGER audit_lines_refuse_deletion AFTER DELETE ON audit_lines REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_deletion_of_audit()""",
)
_REFUSE_AS_BEFORE = """
CREATE TRIGGER audit_lines_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_lines
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit()
"""


def upgrade() -> None:
    op.create_table(
        "audit_cuts",
        sa.Column("chain", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("export", sa.LargeBinary(), nullable=True),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chain", "number", name="pk_audit_cuts"),
    )
    for statement in (_ADMIT, _REFUSE_DELETE, *_TRIGGERS):
        op.execute(statement)


def downgrade() -> None:
    """The cut lines are lost, so each cut chain then begins with a later line."""
    op.execute("DROP TRIGGER audit_lines_refuse_deletion ON audit_lines")
    op.execute("DROP TRIGGER audit_lines_refuse ON audit_lines")
    op.execute(_REFUSE_AS_BEFORE)
    op.drop_table("audit_cuts")
    for function in ("admit_cut_of_audit()", "refuse_deletion_of_audit()"):
        op.execute(f"DROP FUNCTION {function}")
