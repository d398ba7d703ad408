"""The tables of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TELL_OF_RESOURCES = """
CREATE FUNCTION tell_of_resources() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('culvert_resources', '');
    RETURN NULL;
END $$
"""
_RESOURCES_TRIGGER = """
CREATE TRIGGER resources_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON resources
FOR EACH STATEMENT EXECUTE FUNCTION tell_of_resources()
"""


def upgrade() -> None:
    op.create_table(
        "dns_records",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "pending",
                "live",
                "refused",
                name="dnsstate",
                native_enum=False,
                create_constraint=True,
                length=None,
            ),
            nullable=False,
        ),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("remedy", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("name", "zone", "type", name="pk_dns_records"),
    )
    op.create_table(
        "gateways",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("address", postgresql.INET(), nullable=False),
        sa.Column("p4runtime_address", sa.Text(), nullable=False),
        sa.Column("p4runtime_device_id", sa.BigInteger(), nullable=False),
        sa.Column("pool", postgresql.CIDR(), nullable=False),
        sa.Column("wan", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("lan", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("kek_ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_gateways"),
        sa.UniqueConstraint("address", name="uq_gateways_address"),
        sa.UniqueConstraint("name", name="uq_gateways_name"),
        sa.UniqueConstraint(
            "p4runtime_address",
            "p4runtime_device_id",
            name="uq_gateways_p4runtime_address_p4runtime_device_id",
        ),
    )
    op.create_table(
        "resources",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("fqdn", sa.Text(), nullable=False),
        sa.Column("address", postgresql.INET(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("idle_seconds", sa.Integer(), nullable=False),
        sa.Column("soft_packets", sa.BigInteger(), nullable=False),
        sa.Column("soft_bytes", sa.BigInteger(), nullable=False),
        sa.Column("soft_seconds", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "fqdn = lower(fqdn) AND fqdn NOT LIKE '%.'", name="ck_resources_fqdn_is_canonical"
        ),
        sa.CheckConstraint("idle_seconds > 0", name="ck_resources_idle_is_positive"),
        sa.CheckConstraint(
            "soft_packets >= 0 AND soft_bytes >= 0 AND soft_seconds >= 0",
            name="ck_resources_limits_are_not_negative",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_resources"),
        sa.UniqueConstraint("fqdn", name="uq_resources_fqdn"),
        sa.UniqueConstraint("name", name="uq_resources_name"),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
    )
    op.create_table(
        "devices",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "active",
                "revoked",
                name="devicestate",
                native_enum=False,
                create_constraint=True,
                length=None,
            ),
            nullable=False,
        ),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("certificate_serial", sa.Text(), nullable=False),
        sa.Column("certificate_expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("code_valid_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("octet_length(fingerprint) = 32", name="ck_devices_fingerprint_is_sha256"),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_devices_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_devices"),
        sa.UniqueConstraint("certificate_serial", name="uq_devices_certificate_serial"),
        sa.UniqueConstraint("fingerprint", name="uq_devices_fingerprint"),
    )
    op.create_index("ix_devices_user_id", "devices", ["user_id"], unique=False)
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
    op.create_index("ix_grants_user_id", "grants", ["user_id"], unique=False)
    op.create_table(
        "invitations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_invitations_user_id_users", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_invitations"),
        sa.UniqueConstraint("token_hash", name="uq_invitations_token_hash"),
    )
    op.create_index("ix_invitations_user_id", "invitations", ["user_id"], unique=False)
    op.create_table(
        "resource_gateways",
        sa.Column("resource_id", sa.BigInteger(), nullable=False),
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["gateway_id"],
            ["gateways.id"],
            name="fk_resource_gateways_gateway_id_gateways",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["resource_id"],
            ["resources.id"],
            name="fk_resource_gateways_resource_id_resources",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("resource_id", "gateway_id", name="pk_resource_gateways"),
        sa.UniqueConstraint("resource_id", "position", name="uq_resource_gateways_resource_id_position"),
    )
    op.create_table(
        "addresses",
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("device_id", sa.Uuid(), nullable=False),
        sa.Column("address", postgresql.INET(), nullable=False),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name="fk_addresses_device_id_devices", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["gateway_id"], ["gateways.id"], name="fk_addresses_gateway_id_gateways", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("gateway_id", "device_id", name="pk_addresses"),
        sa.UniqueConstraint("gateway_id", "address", name="uq_addresses_gateway_id_address"),
    )
    op.create_table(
        "totp",
        sa.Column("device_id", sa.Uuid(), nullable=False),
        sa.Column("secret_ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("last_used_step", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("locked_until", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name="fk_totp_device_id_devices", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("device_id", name="pk_totp"),
    )
    op.create_table(
        "tunnels",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("device_id", sa.Uuid(), nullable=False),
        sa.Column("resource_id", sa.BigInteger(), nullable=False),
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "up", "renewing", name="tunnelstate", native_enum=False, create_constraint=True, length=None
            ),
            nullable=False,
        ),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("peer_address", postgresql.INET(), nullable=False),
        sa.Column("peer_port", sa.Integer(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("generation >= 1", name="ck_tunnels_generation_counts_from_1"),
        sa.CheckConstraint("peer_port BETWEEN 1 AND 65535", name="ck_tunnels_peer_port_is_a_port"),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name="fk_tunnels_device_id_devices", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["gateway_id", "device_id"],
            ["addresses.gateway_id", "addresses.device_id"],
            name="fk_tunnels_gateway_id_device_id_addresses",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["gateway_id"], ["gateways.id"], name="fk_tunnels_gateway_id_gateways", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["resource_id"], ["resources.id"], name="fk_tunnels_resource_id_resources", ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_tunnels"),
        sa.UniqueConstraint("device_id", "resource_id", name="uq_tunnels_device_id_resource_id"),
    )
    op.create_index("ix_tunnels_gateway_id", "tunnels", ["gateway_id"], unique=False)
    op.create_index("ix_tunnels_resource_id", "tunnels", ["resource_id"], unique=False)
    op.create_table(
        "security_associations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tunnel_id", sa.Uuid(), nullable=False),
        sa.Column("gateway_id", sa.BigInteger(), nullable=False),
        sa.Column("device_id", sa.Uuid(), nullable=False),
        sa.Column(
            "direction",
            sa.Enum(
                "to_gateway",
                "to_device",
                name="direction",
                native_enum=False,
                create_constraint=True,
                length=None,
            ),
            nullable=False,
        ),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("spi", sa.BigInteger(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("sa_id", sa.BigInteger(), nullable=False),
        sa.Column("drain_until", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "sa_id BETWEEN 1 AND 4294967295", name="ck_security_associations_sa_id_is_32_bits"
        ),
        sa.CheckConstraint("slot BETWEEN 0 AND 65535", name="ck_security_associations_slot_exists"),
        sa.CheckConstraint(
            "spi BETWEEN 256 AND 4294967295", name="ck_security_associations_spi_is_not_reserved"
        ),
        sa.ForeignKeyConstraint(
            ["device_id"],
            ["devices.id"],
            name="fk_security_associations_device_id_devices",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["gateway_id"],
            ["gateways.id"],
            name="fk_security_associations_gateway_id_gateways",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["tunnel_id"],
            ["tunnels.id"],
            name="fk_security_associations_tunnel_id_tunnels",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_security_associations"),
        sa.UniqueConstraint(
            "gateway_id", "direction", "slot", name="uq_security_associations_gateway_id_direction_slot"
        ),
        sa.UniqueConstraint("gateway_id", "sa_id", name="uq_security_associations_gateway_id_sa_id"),
        sa.UniqueConstraint(
            "tunnel_id",
            "direction",
            "generation",
            name="uq_security_associations_tunnel_id_direction_generation",
        ),
    )
    op.create_index(
        "uq_security_associations_device_spi",
        "security_associations",
        ["device_id", "spi"],
        unique=True,
        postgresql_where=sa.text("direction = 'to_device'"),
    )
    op.create_index(
        "uq_security_associations_gateway_spi",
        "security_associations",
        ["gateway_id", "spi"],
        unique=True,
        postgresql_where=sa.text("direction = 'to_gateway'"),
    )

    op.execute(_TELL_OF_RESOURCES)
    op.execute(_RESOURCES_TRIGGER)


def downgrade() -> None:
    op.execute("DROP TRIGGER resources_changed ON resources")
    op.execute("DROP FUNCTION tell_of_resources")
    op.drop_index(
        "uq_security_associations_gateway_spi",
        table_name="security_associations",
        postgresql_where=sa.text("direction = 'to_gateway'"),
    )
    op.drop_index(
        "uq_security_associations_device_spi",
        table_name="security_associations",
        postgresql_where=sa.text("direction = 'to_device'"),
    )
    op.drop_table("security_associations")
    op.drop_index("ix_tunnels_resource_id", table_name="tunnels")
    op.drop_index("ix_tunnels_gateway_id", table_name="tunnels")
    op.drop_table("tunnels")
    op.drop_table("totp")
    op.drop_table("addresses")
    op.drop_table("resource_gateways")
    op.drop_index("ix_invitations_user_id", table_name="invitations")
    op.drop_table("invitations")
    op.drop_index("ix_grants_user_id", table_name="grants")
    op.drop_table("grants")
    op.drop_index("ix_devices_user_id", table_name="devices")
    op.drop_table("devices")
    op.drop_table("users")
    op.drop_table("resources")
    op.drop_table("gateways")
    op.drop_table("dns_records")
