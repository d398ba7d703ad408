"""IPv6 and suites of gateways; the endpoints by which gateways follow their peers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# The first release's constraint has its prefix twice.
_OLD_PORT_CHECK = op.f("ck_tunnels_ck_tunnels_peer_port_is_a_port")
_PORT_CHECK = op.f("ck_tunnels_peer_port_is_a_port")

# The tunnels of before are not on their gateways any more, which have a new program. They keep their rows until the
# reconciler has told their devices.
_NUMBER_ENDPOINTS = """
UPDATE tunnels SET endpoint = numbered.endpoint FROM (
    SELECT id, row_number() OVER (PARTITION BY gateway_id ORDER BY id) AS endpoint FROM tunnels
) AS numbered WHERE tunnels.id = numbered.id
"""


def upgrade() -> None:
    op.add_column("gateways", sa.Column("address6", postgresql.INET(), nullable=True))
    op.create_unique_constraint("uq_gateways_address6", "gateways", ["address6"])
    op.add_column("gateways", sa.Column("suite", sa.Text(), server_default="aes-gcm-256", nullable=False))
    op.add_column(
        "gateways",
        sa.Column(
            "legacy_suites", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
    )
    op.add_column("tunnels", sa.Column("endpoint", sa.Integer(), nullable=True))
    op.execute(_NUMBER_ENDPOINTS)
    op.alter_column("tunnels", "endpoint", nullable=False)
    op.create_unique_constraint("uq_tunnels_gateway_id_endpoint", "tunnels", ["gateway_id", "endpoint"])
    op.create_check_constraint(op.f("ck_tunnels_endpoint_exists"), "tunnels", "endpoint BETWEEN 0 AND 65535")
    op.drop_constraint(_OLD_PORT_CHECK, "tunnels", type_="check")
    op.create_check_constraint(_PORT_CHECK, "tunnels", "peer_port BETWEEN 0 AND 65535")
    op.add_column("security_associations", sa.Column("tag", sa.BigInteger(), nullable=True))
    op.execute("UPDATE security_associations SET tag = 1 + id % 4294967295")
    op.alter_column("security_associations", "tag", nullable=False)
    op.add_column(
        "security_associations",
        sa.Column("made_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
    )
    op.create_check_constraint(
        op.f("ck_security_associations_tag_is_32_bits"),
        "security_associations",
        "tag BETWEEN 1 AND 4294967295",
    )


def downgrade() -> None:
    op.drop_column("security_associations", "made_at")
    op.drop_column("security_associations", "tag")
    # A tunnel that sends ESP without UDP has no place in the older table.
    op.execute("DELETE FROM tunnels WHERE peer_port = 0")
    op.drop_constraint(_PORT_CHECK, "tunnels", type_="check")
    op.create_check_constraint(_OLD_PORT_CHECK, "tunnels", "peer_port BETWEEN 1 AND 65535")
    op.drop_column("tunnels", "endpoint")
    op.drop_column("gateways", "legacy_suites")
    op.drop_column("gateways", "suite")
    op.drop_column("gateways", "address6")
