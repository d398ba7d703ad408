"""Culvert's tables and migrations. SQL for a concept lives with the concept, not here."""

from culvert_db.base import Base
from culvert_db.dns import DnsRecord, DnsState
from culvert_db.engine import Sessions, create_engine, create_sessions
from culvert_db.identity import Device, DeviceState, Invitation, Totp, User
from culvert_db.migrate import upgrade
from culvert_db.network import Gateway, Grant, Resource, ResourceGateway
from culvert_db.tunnels import Address, Direction, SecurityAssociation, Tunnel, TunnelState

# Postgres NOTIFY channel, told after every change of `resources`.
RESOURCES_CHANNEL = "culvert_resources"

__all__ = [
    "RESOURCES_CHANNEL",
    "Address",
    "Base",
    "Device",
    "DeviceState",
    "Direction",
    "DnsRecord",
    "DnsState",
    "Gateway",
    "Grant",
    "Invitation",
    "Resource",
    "ResourceGateway",
    "SecurityAssociation",
    "Sessions",
    "Totp",
    "Tunnel",
    "TunnelState",
    "User",
    "create_engine",
    "create_sessions",
    "upgrade",
]
