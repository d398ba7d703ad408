"""The parts of a controller, in the order in which they start. They stop in the reverse order.

state_dir ─► CAs, master key, admin token
Postgres  ─► tables ─► Identity   Policies   Resources   Gateways   Tunnels
                          │          │           │           │         │
                      Watch hub ◄────┴───────────┴───────────┴─────────┤
                                                                       ▼
REST (HTTPS)          agent API (gRPC, mTLS)                  Fleet: a P4Runtime link for each gateway
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from culvert_db import Database
from fastapi import APIRouter, FastAPI

from culvert_service.about import endpoints as about_endpoints
from culvert_service.about.service import About
from culvert_service.acme.service import AcmeCertificates
from culvert_service.admins.part import AdminsPart
from culvert_service.agent.handover import Handover
from culvert_service.agent.profiles import Profiles
from culvert_service.agent.servicer import AgentServicer
from culvert_service.apt import endpoints as apt_endpoints
from culvert_service.apt.service import ReleasePackages
from culvert_service.audit import endpoints as audit_endpoints
from culvert_service.audit.cut import CutKey
from culvert_service.audit.refusals import Refusals
from culvert_service.audit.retention import Retention
from culvert_service.config import ConfigurationError, Settings
from culvert_service.controller.database import DirectConnections
from culvert_service.controllers.calls import Calls
from culvert_service.controllers.identity import ControllerId
from culvert_service.controllers.listener import Listener
from culvert_service.dns import endpoints as dns_endpoints
from culvert_service.dns.managed import ManagedZones
from culvert_service.dns.service import Dns
from culvert_service.gateway_state import GatewayState
from culvert_service.gateways import endpoints as gateway_endpoints
from culvert_service.gateways.changes import Changes
from culvert_service.gateways.dialled import Dialled
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.host_registry import CryptoHosts
from culvert_service.gateways.ownership import Leases, Ownership
from culvert_service.gateways.program import Program
from culvert_service.gateways.remote import Remote
from culvert_service.gateways.sampling import Sampling
from culvert_service.gateways.service import Gateways
from culvert_service.http.application import application
from culvert_service.identity.denials import Denials
from culvert_service.identity.part import IdentityPart
from culvert_service.identity.revocations import Revocations
from culvert_service.joining import endpoints as joining_endpoints
from culvert_service.joining.reports import Reports
from culvert_service.joining.service import Joining
from culvert_service.live import endpoints as live_endpoints
from culvert_service.live.endpoints import Live
from culvert_service.metrics import endpoints as metrics_endpoints
from culvert_service.metrics.calls import RestCalls, count_agent_calls
from culvert_service.metrics.instruments import Instruments
from culvert_service.metrics.state import StateGauges
from culvert_service.oidc import endpoints as oidc_endpoints
from culvert_service.oidc.service import Oidc, provider_from_settings
from culvert_service.pki.authority import Authority
from culvert_service.pki.master_key import MasterKey
from culvert_service.pki.own_certificates import OwnCertificates
from culvert_service.pki.public_certificate import CertificateFiles, PublicCertificates
from culvert_service.policies import endpoints as policy_endpoints
from culvert_service.resources import endpoints as resource_endpoints
from culvert_service.resources.effect import ResourceEffects
from culvert_service.resources.service import Resources
from culvert_service.servers import AgentPort, RestPort
from culvert_service.site_tunnels import endpoints as site_tunnel_endpoints
from culvert_service.site_tunnels.fit import check_gateway
from culvert_service.site_tunnels.service import SiteTunnels
from culvert_service.tracing.tracing import Tracing
from culvert_service.tunnels import endpoints as tunnel_endpoints
from culvert_service.tunnels.service import Tunnels
from culvert_service.tunnels.traffic import Throughput
from culvert_service.watch.hub import Hub
from culvert_service.watch.presence import Presence
from culvert_service.watch.pushes import Pushes


class Runs(Protocol):
    """A part's work, from the controller's start to its stop."""

    async def start(self) -> None: ...

    async def stop(self) -> None:
        """Also called after a failed start."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the controller: its work, if any, the routes of administrators, and routes that need no account."""

    runs: Runs | None
    admin: Sequence[APIRouter] = ()
    public: Sequence[APIRouter] = ()


@dataclass(frozen=True, slots=True)
class Built:
    app: FastAPI
    gateways: Gateways
    parts: Sequence[Runs]


def build(settings: Settings, database: Database, now: Callable[[], datetime.datetime]) -> Built:
    """Build the parts without starting any and without using the database. Raises ConfigurationError."""
    infrastructure, gateway_authority, device_authority = (
        Authority.load(settings.state_dir, name) for name in ("infrastructure", "gateway", "device")
    )
    authorities = {
        "infrastructure": infrastructure,
        "gateway": gateway_authority,
        "device": device_authority,
    }
    master_key = MasterKey.load(settings.state_dir)
    own = OwnCertificates(
        infrastructure, device_authority, gateway_authority, settings.certificate_names, now
    )
    tracing, instruments = Tracing(settings, database), Instruments()
    direct = DirectConnections(settings, database)
    me = ControllerId(settings.controller_name)
    calls = Calls(database, me, master_key)
    public: PublicCertificates | None = None
    acme: list[AcmeCertificates] = []
    if settings.acme_directory is not None:
        public = AcmeCertificates(settings, settings.acme_directory, database, me, master_key, calls, now)
        acme = [public]
    elif settings.public_certificate_file is not None and settings.public_key_file is not None:
        files = settings.public_certificate_file, settings.public_key_file
        public = CertificateFiles(*files, settings.public_name, now)

    cut_key = CutKey(master_key)
    keep = datetime.timedelta(days=settings.audit_keep_days) if settings.audit_keep_days else None
    retention = Retention(database, cut_key, now, keep, settings.audit_export_dir)
    refusals = Refusals(database)
    denials = Denials(database, refusals, instruments)

    hub = Hub()
    pushes = Pushes(database, hub, me)
    presence = Presence(database, hub, me, now)
    revocations = Revocations(database, now)
    administrators = AdminsPart(settings, database, refusals, master_key, now)
    api, public_api = administrators.admin_api, administrators.public_api
    packages = ReleasePackages(settings, infrastructure)
    people = IdentityPart(
        settings,
        database,
        refusals,
        denials,
        infrastructure,
        device_authority,
        master_key,
        hub,
        pushes,
        presence,
        packages,
        now,
    )
    zones = ManagedZones(database, settings.managed_zones, settings.denial_page_zones, hub)
    dns = Dns(database, zones)

    dialled = Dialled(settings.state_dir)
    fleet = Fleet(*_programs(settings), own, dialled)
    remote = Remote(calls, fleet)
    drain, approval = datetime.timedelta(seconds=settings.drain_seconds), settings.device_approval
    tunnels = Tunnels(
        database,
        fleet,
        remote,
        hub,
        pushes,
        denials,
        instruments,
        now,
        drain=drain,
        approval=approval,
    )
    enforcement, refit = tunnels.enforcement, tunnels.refit
    throughput = Throughput(tunnels.traffic, fleet, calls)
    site_tunnels = SiteTunnels(database, fleet, calls, remote, instruments, drain=drain)
    at_gateways = GatewayState(
        database,
        fleet,
        master_key,
        tunnels,
        site_tunnels,
        instruments,
        settings.lease_seconds,
        direct.database,
    )
    ownership = Ownership(database, fleet, dialled, at_gateways, me, master_key, hub, settings.lease_seconds)
    gateways = Gateways(
        database,
        fleet,
        ownership,
        gateway_authority,
        infrastructure,
        master_key,
        at_gateways,
        [*settings.certificate_names, settings.controller_name],
        settings.protected_prefixes,
    )
    hosts = CryptoHosts(database, fleet, ownership, gateway_authority, infrastructure, master_key)
    changes = Changes(database, ownership, refit, check_gateway, settings.protected_prefixes)
    joining = Joining(
        database,
        refusals,
        ownership,
        changes,
        gateway_authority,
        infrastructure,
        master_key,
        packages,
        rest_url=settings.enrolment_url,
        agent_address=settings.agent_address,
        protected_prefixes=settings.protected_prefixes,
        now=now,
    )
    reports = Reports(
        database, refusals, ownership, changes, protected_prefixes=settings.protected_prefixes, now=now
    )
    resources = Resources(
        database,
        hub,
        tunnels,
        refit,
        site_tunnels.following,
        enforcement,
        zones,
    )
    oidc = Oidc(database, refusals, provider_from_settings(settings), master_key, people.invitations, now)
    profiles = Profiles(database, fleet, zones, settings.protected_prefixes, now)
    servicer = AgentServicer(
        people.identity,
        people.authenticators,
        people.renewal,
        tunnels,
        hub,
        pushes,
        Handover(calls, fleet),
        denials,
        profiles,
    )
    calls.serve(servicer, remote, site_tunnels, throughput, *acme)
    listener = Listener(direct.database, [ownership, pushes, site_tunnels, calls, zones, revocations])
    live = Live(database, gateways, dns, throughput)

    parts = [
        Part(tracing),
        Part(
            None,
            [metrics_endpoints.router(api, instruments, StateGauges(database, fleet, hub, authorities))],
        ),
        Part(direct),
        Part(Leases(database, me)),
        Part(dialled),
        Part(fleet),
        Part(remote),
        Part(tunnels, admin=[tunnel_endpoints.router(api, tunnels)]),
        Part(site_tunnels, admin=[site_tunnel_endpoints.router(api, site_tunnels)]),
        Part(Sampling(database, fleet, tunnels.traffic.take)),
        Part(at_gateways.rotation),
        Part(
            gateways,
            admin=[
                gateway_endpoints.router(api, gateways, changes),
                gateway_endpoints.hosts_router(api, hosts),
            ],
        ),
        Part(
            None,
            [joining_endpoints.router(api, joining)],
            [joining_endpoints.public_router(public_api, joining, reports)],
        ),
        Part(ownership),
        Part(calls),
        Part(pushes),
        Part(zones, admin=[dns_endpoints.router(api, dns)]),
        Part(listener),
        Part(refusals),
        Part(retention, admin=[audit_endpoints.router(api, database, cut_key, settings.audit_keep_days)]),
        Part(None, administrators.admin, administrators.public),
        Part(
            None,
            people.admin(api, tunnels, enforcement),
            people.public(public_api),
        ),
        Part(
            None,
            policy_endpoints.routers(api, database, enforcement, fleet, now, approval=approval),
        ),
        Part(
            None,
            [resource_endpoints.router(api, resources, ResourceEffects(database, resources, enforcement))],
        ),
        Part(None, public=[oidc_endpoints.public_router(public_api, oidc)]),
        Part(None, public=[apt_endpoints.public_router(public_api, packages)]),
        Part(
            own,
            [about_endpoints.router(api, About(settings, zones, own, public, authorities, oidc, now))],
        ),
        Part(public),
        Part(presence),
        Part(profiles),
        Part(
            AgentPort(
                settings,
                own,
                servicer,
                dialled,
                revocations,
                hub,
                [*tracing.around_agent_calls(), count_agent_calls(instruments)],
            )
        ),
    ]
    watching = Part(live, [live_endpoints.router(api, live, administrators.access)])
    app = application(
        database,
        administrators.access,
        administrators.rates,
        master_key,
        now,
        infrastructure.pem.decode(),
        settings.console,
        settings.documentation,
        admin=[router for part in [*parts, watching] for router in part.admin],
        public=[router for part in parts for router in part.public],
        works=[ownership.looks, enforcement.sweeps, pushes.looking],
    )
    app.add_middleware(RestCalls, instruments=instruments)
    tracing.add_to(app)
    # `watching` stops before RestPort: the server waits for open streams.
    parts += [Part(RestPort(app, settings, own, public)), watching]
    return Built(app, gateways, [part.runs for part in parts if part.runs is not None])


def _programs(settings: Settings) -> tuple[Program, Program]:
    """The program of gateways, and that of crypto hosts."""
    gateway, host = (
        Program(
            settings.p4_artifacts / f"{name}.p4info.txtpb",
            settings.p4_artifacts / f"{name}.json",
            settings.p4runtime_role,
        )
        for name in ("gateway", "crypto_host")
    )
    for file in (gateway.p4info, gateway.blob, host.p4info, host.blob):
        if not file.is_file():
            raise ConfigurationError(f"p4_artifacts: {file} is not there")
    return gateway, host
