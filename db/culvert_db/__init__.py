"""Culvert's tables and migrations. Statements about a concept are in that concept's package."""

from culvert_db.acme import AcmeCertificate
from culvert_db.admins import (
    Admin,
    AdminInvitation,
    AdminNotice,
    AdminSession,
    ApiToken,
    Role,
    SignInGuesses,
    WrongCodes,
)
from culvert_db.audit import ActorKind, AuditCut, AuditLine, Outcome
from culvert_db.base import Base
from culvert_db.dns import (
    DenialPage,
    DnsLease,
    DnsRecord,
    DnsState,
    DnsZone,
    DnsZoneResource,
    DnsZoneStatus,
)
from culvert_db.engine import Database, bind_database, create_engine, parse_url
from culvert_db.fitness import UnfitDatabaseError, check, hears
from culvert_db.idempotency import IdempotencyKey
from culvert_db.identity import (
    Device,
    DeviceState,
    Invitation,
    RecoveryCode,
    RenewalChallenge,
    Totp,
    User,
)
from culvert_db.migrate import MigrationError, newest_revision, upgrade, upgrade_apart
from culvert_db.network import CryptoHost, Gateway, GatewayEnrolment, Resource, ResourceGateway
from culvert_db.outage import READ_ONLY, describe, is_held, refusal, remedy, sqlstate, why_away
from culvert_db.ownership import (
    ControllerName,
    GatewayConnection,
    GatewayHealth,
    GatewayLease,
    GatewayNeighbour,
    GatewaySample,
    LiveController,
)
from culvert_db.policies import (
    Assertion,
    Group,
    GroupMember,
    HistoryBegin,
    PastVersion,
    Policy,
    PolicyResource,
    PolicyUse,
    PolicyVersion,
)
from culvert_db.server import clock, notify
from culvert_db.sign_in import AdminChallenge, AdminIdentity, AdminPasskey, AdminRecoveryCode
from culvert_db.site_tunnels import SiteTunnel, SiteTunnelResource, SiteTunnelState
from culvert_db.statement import Statement, as_json, from_json
from culvert_db.tls import Tls, UntrustedDatabaseError
from culvert_db.transaction import Direct, Driver, InSession, SilentServerError, Statements, direct
from culvert_db.tunnels import Address, Direction, SecurityAssociation, Tunnel, TunnelState, doubted
from culvert_db.watch import Push, PushKind

# NOTIFY channel of changes of `resources`.
RESOURCES_CHANNEL = "culvert_resources"
# Channel of changes of `dns_zones`, of their lists of resources, and of `denial_pages`.
DNS_ZONES_CHANNEL = "culvert_dns_zones"
# Channel of changes of gateways: owner, settings, online or offline.
GATEWAYS_CHANNEL = "culvert_gateways"
# Channel of pushes to devices without a stream at the writing controller.
PUSHES_CHANNEL = "culvert_pushes"
# Channel of revocations of devices.
REVOCATIONS_CHANNEL = "culvert_revocations"
# Channel of changes of `site_tunnels`; with the payload "ID GENERATION" when that generation has reached a soft limit.
SITE_TUNNELS_CHANNEL = "culvert_site_tunnels"

__all__ = [
    "DNS_ZONES_CHANNEL",
    "GATEWAYS_CHANNEL",
    "PUSHES_CHANNEL",
    "READ_ONLY",
    "RESOURCES_CHANNEL",
    "REVOCATIONS_CHANNEL",
    "SITE_TUNNELS_CHANNEL",
    "AcmeCertificate",
    "ActorKind",
    "Address",
    "Admin",
    "AdminChallenge",
    "AdminIdentity",
    "AdminInvitation",
    "AdminNotice",
    "AdminPasskey",
    "AdminRecoveryCode",
    "AdminSession",
    "ApiToken",
    "Assertion",
    "AuditCut",
    "AuditLine",
    "Base",
    "ControllerName",
    "CryptoHost",
    "Database",
    "DenialPage",
    "Device",
    "DeviceState",
    "Direct",
    "Direction",
    "DnsLease",
    "DnsRecord",
    "DnsState",
    "DnsZone",
    "DnsZoneResource",
    "DnsZoneStatus",
    "Driver",
    "Gateway",
    "GatewayConnection",
    "GatewayEnrolment",
    "GatewayHealth",
    "GatewayLease",
    "GatewayNeighbour",
    "GatewaySample",
    "Group",
    "GroupMember",
    "HistoryBegin",
    "IdempotencyKey",
    "InSession",
    "Invitation",
    "LiveController",
    "MigrationError",
    "Outcome",
    "PastVersion",
    "Policy",
    "PolicyResource",
    "PolicyUse",
    "PolicyVersion",
    "Push",
    "PushKind",
    "RecoveryCode",
    "RenewalChallenge",
    "Resource",
    "ResourceGateway",
    "Role",
    "SecurityAssociation",
    "SignInGuesses",
    "SilentServerError",
    "SiteTunnel",
    "SiteTunnelResource",
    "SiteTunnelState",
    "Statement",
    "Statements",
    "Tls",
    "Totp",
    "Tunnel",
    "TunnelState",
    "UnfitDatabaseError",
    "UntrustedDatabaseError",
    "User",
    "WrongCodes",
    "as_json",
    "bind_database",
    "check",
    "clock",
    "create_engine",
    "describe",
    "direct",
    "doubted",
    "from_json",
    "hears",
    "is_held",
    "newest_revision",
    "notify",
    "parse_url",
    "refusal",
    "remedy",
    "sqlstate",
    "upgrade",
    "upgrade_apart",
    "why_away",
]
