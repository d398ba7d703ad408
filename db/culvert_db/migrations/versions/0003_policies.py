"""Groups and policies in the place of grants; devices that are approved, and what they report."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_STATE_CHECK = op.f("ck_devices_devicestate")
# A code opens tunnels for eight hours; until now, a device knew only the end.
_PROVEN = "UPDATE devices SET code_proven_at = code_valid_until - interval '8 hours'"

# Neither part of the name has a space, so no two grants make one name.
_GRANTS_TO_POLICIES = (
    """
INSERT INTO policies (name, user_id)
SELECT users.name || ' to ' || resources.name, users.id
FROM grants JOIN users ON users.id = grants.user_id JOIN resources ON resources.id = grants.resource_id
""",
    """
INSERT INTO policy_resources (policy_id, resource_id)
SELECT policies.id, resources.id
FROM grants JOIN users ON users.id = grants.user_id JOIN resources ON resources.id = grants.resource_id
JOIN policies ON policies.name = users.name || ' to ' || resources.name
""",
)

# A policy with conditions permits nobody while the conditions are unknown.
_POLICIES_TO_GRANTS = """
INSERT INTO grants (resource_id, user_id)
SELECT DISTINCT policy_resources.resource_id, coalesce(policies.user_id, group_members.user_id)
FROM policies JOIN policy_resources ON policy_resources.policy_id = policies.id
LEFT JOIN group_members ON group_members.group_id = policies.group_id
WHERE policies.enabled AND policies.conditions = '{}'
AND coalesce(policies.user_id, group_members.user_id) IS NOT NULL
"""

_COUNT = """
CREATE FUNCTION culvert_count_policy_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE policy_version SET version = version + 1;
    RETURN NULL;
END
$$
"""
_COUNTED = ("policies", "policy_resources", "group_members")
_COUNT_APPROVALS = """
CREATE TRIGGER culvert_count_policy_change AFTER UPDATE OF state ON devices FOR EACH ROW
WHEN (OLD.state = 'approved' AND NEW.state = 'pending') EXECUTE FUNCTION culvert_count_policy_change()
"""


def upgrade() -> None:
    op.create_table(
        "groups",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_groups"),
        sa.UniqueConstraint("name", name="uq_groups_name"),
    )
    op.create_table(
        "group_members",
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.id"], name="fk_group_members_group_id_groups", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_group_members_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("group_id", "user_id", name="pk_group_members"),
    )
    op.create_index("ix_group_members_user_id", "group_members", ["user_id"])
    op.create_table(
        "policies",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=True),
        sa.Column("user_id", sa.BigInteger(), nullable=True),
        sa.Column("conditions", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "num_nonnulls(group_id, user_id) = 1", name=op.f("ck_policies_is_for_a_group_or_a_person")
        ),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.id"], name="fk_policies_group_id_groups", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_policies_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_policies"),
        sa.UniqueConstraint("name", name="uq_policies_name"),
    )
    op.create_index("ix_policies_group_id", "policies", ["group_id"])
    op.create_index("ix_policies_user_id", "policies", ["user_id"])
    op.create_table(
        "policy_resources",
        sa.Column("policy_id", sa.BigInteger(), nullable=False),
        sa.Column("resource_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["policy_id"], ["policies.id"], name="fk_policy_resources_policy_id_policies", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["resource_id"],
            ["resources.id"],
            name="fk_policy_resources_resource_id_resources",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("policy_id", "resource_id", name="pk_policy_resources"),
    )
    op.create_index("ix_policy_resources_resource_id", "policy_resources", ["resource_id"])
    for statement in _GRANTS_TO_POLICIES:
        op.execute(statement)
    op.drop_table("grants")

    op.create_table(
        "policy_version",
        sa.Column("only_row", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("only_row", name=op.f("ck_policy_version_has_one_row")),
        sa.PrimaryKeyConstraint("only_row", name="pk_policy_version"),
    )
    op.execute("INSERT INTO policy_version (version) VALUES (1)")
    op.execute(_COUNT)
    for table in _COUNTED:
        op.execute(
            f"CREATE TRIGGER culvert_count_policy_change AFTER INSERT OR UPDATE OR DELETE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION culvert_count_policy_change()"
        )

    op.drop_constraint(_STATE_CHECK, "devices", type_="check")
    op.execute("UPDATE devices SET state = 'approved' WHERE state = 'active'")
    op.create_check_constraint(_STATE_CHECK, "devices", "state IN ('pending', 'approved', 'revoked')")
    op.execute(_COUNT_APPROVALS)
    op.add_column("devices", sa.Column("code_proven_at", sa.DateTime(timezone=True), nullable=True))
    op.execute(_PROVEN)
    op.add_column("devices", sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("devices", sa.Column("last_seen_address", postgresql.INET(), nullable=True))
    op.add_column("devices", sa.Column("client_version", sa.Text(), nullable=True))
    op.add_column(
        "devices", sa.Column("posture", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False)
    )

    # Under no version: they are decided anew as soon as a controller runs.
    op.add_column("tunnels", sa.Column("policy_version", sa.BigInteger(), server_default="0", nullable=False))
    op.alter_column("tunnels", "policy_version", server_default=None)
    op.add_column(
        "tunnels",
        sa.Column(
            "permitted_until", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
    )
    op.alter_column("tunnels", "permitted_until", server_default=None)


def downgrade() -> None:
    op.drop_column("tunnels", "permitted_until")
    op.drop_column("tunnels", "policy_version")
    for column in ("posture", "client_version", "last_seen_address", "last_seen_at", "code_proven_at"):
        op.drop_column("devices", column)
    for table in (*_COUNTED, "devices"):
        op.execute(f"DROP TRIGGER culvert_count_policy_change ON {table}")
    op.execute("DROP FUNCTION culvert_count_policy_change")
    op.drop_constraint(_STATE_CHECK, "devices", type_="check")
    op.execute("UPDATE devices SET state = 'active' WHERE state <> 'revoked'")
    op.create_check_constraint(_STATE_CHECK, "devices", "state IN ('active', 'revoked')")
    op.drop_table("policy_version")

    op.create_table(
        "grants",
        sa.Column("resource_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["resource_id"], ["resources.id"], name="fk_grants_resource_id_resources", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_grants_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("resource_id", "user_id", name="pk_grants"),
    )
    op.create_index("ix_grants_user_id", "grants", ["user_id"])
    op.execute(_POLICIES_TO_GRANTS)
    for table in ("policy_resources", "policies", "group_members", "groups"):
        op.drop_table(table)
