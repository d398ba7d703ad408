"""Crypto hosts of gateways, and which of them serves an SA."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "crypto_hosts",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("p4runtime_address", sa.Text(), nullable=False),
        sa.Column("p4runtime_device_id", sa.BigInteger(), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("mac", sa.Text(), nullable=False),
        sa.Column("host_port", sa.Integer(), nullable=False),
        sa.Column("host_mac", sa.Text(), nullable=False),
        sa.Column("kek_ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("draining_since", sa.DateTime(timezone=True)),
        sa.Column("version", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.CheckConstraint(
            "port BETWEEN 0 AND 511 AND host_port BETWEEN 0 AND 511", name="ck_crypto_hosts_ports_are_9_bits"
        ),
        sa.ForeignKeyConstraint(
            ["gateway_id"], ["gateways.id"], name="fk_crypto_hosts_gateway_id_gateways", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_crypto_hosts"),
        sa.UniqueConstraint("name", name="uq_crypto_hosts_name"),
        sa.UniqueConstraint("gateway_id", "port", name="uq_crypto_hosts_gateway_id_port"),
        sa.UniqueConstraint(
            "p4runtime_address",
            "p4runtime_device_id",
            name="uq_crypto_hosts_p4runtime_address_p4runtime_device_id",
        ),
    )
    op.execute(
        "CREATE TRIGGER culvert_count_version BEFORE UPDATE ON crypto_hosts"
        " FOR EACH ROW EXECUTE FUNCTION culvert_count_version()"
    )
    op.add_column("security_associations", sa.Column("crypto_port", sa.Integer()))


def downgrade() -> None:
    op.drop_column("security_associations", "crypto_port")
    op.drop_table("crypto_hosts")
