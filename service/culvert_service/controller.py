"""The controller as one process: what it is made of, how it starts, how it stops.

state_dir ─► CAs, master key, admin token
Postgres  ─► tables ─► Identity   Policies   Resources   Gateways   Tunnels
                          │          │           │           │         │
                      Watch hub ◄────┴───────────┴───────────┴─────────┤
                                                                       ▼
REST (HTTPS)          agent API (gRPC, mTLS)                  Fleet: a P4Runtime link for each gateway
"""

from __future__ import annotations

import asyncio
import datetime
import gc
import logging
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from culvert_db import (
    GATEWAYS_CHANNEL,
    PUSHES_CHANNEL,
    Database,
    UnfitDatabaseError,
    bind_database,
    check,
    dns_role,
    hears,
    upgrade_apart,
)
from culvert_db.embedded import EmbeddedPostgres
from culvert_proto import agent_pb2_grpc
from culvert_proto.private_memory import warn_if_not_locked
from sqlalchemy.ext.asyncio import AsyncEngine

from culvert_service import private_files, servers
from culvert_service.about import endpoints as about_endpoints
from culvert_service.about.service import About
from culvert_service.admins import account_endpoints, passkey_endpoints
from culvert_service.admins import endpoints as admin_endpoints
from culvert_service.admins.access import Access
from culvert_service.admins.account import Account
from culvert_service.admins.admin_token import AdminToken
from culvert_service.admins.credentials import OwnCredentials
from culvert_service.admins.notices import Notices
from culvert_service.admins.passkeys import Passkeys
from culvert_service.admins.password import Passwords
from culvert_service.admins.proof import Proof
from culvert_service.admins.rates import Rates
from culvert_service.admins.service import Admins
from culvert_service.agent.handover import Handover
from culvert_service.agent.servicer import AgentServicer
from culvert_service.audit import endpoints as audit_endpoints
from culvert_service.audit.cut import CutKey
from culvert_service.audit.refusals import Refusals
from culvert_service.audit.retention import LOOK_SECONDS, Retention
from culvert_service.config import ConfigurationError, Settings
from culvert_service.controllers.calls import Calls
from culvert_service.controllers.identity import ControllerId
from culvert_service.controllers.listener import Listener
from culvert_service.database import connect
from culvert_service.dns import endpoints as dns_endpoints
from culvert_service.dns.managed import ManagedZones
from culvert_service.dns.service import Dns
from culvert_service.gateway_state import GatewayState
from culvert_service.gateways import endpoints as gateway_endpoints
from culvert_service.gateways.changes import Changes
from culvert_service.gateways.config import config_of
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.link import Hooks
from culvert_service.gateways.ownership import Ownership
from culvert_service.gateways.remote import Remote
from culvert_service.gateways.sampling import Sampling
from culvert_service.gateways.service import Gateways
from culvert_service.gateways.session import Credentials, Program
from culvert_service.http.application import application
from culvert_service.identity import endpoints as identity_endpoints
from culvert_service.identity.authenticators import Authenticators
from culvert_service.identity.denials import Denials
from culvert_service.identity.invitations import Invitations
from culvert_service.identity.late_renewal import Challenges, LateRenewal
from culvert_service.identity.people import People
from culvert_service.identity.renewal import Renewal
from culvert_service.identity.revocations import Revocations
from culvert_service.identity.service import Identity
from culvert_service.live import endpoints as live_endpoints
from culvert_service.live.endpoints import Live
from culvert_service.metrics import endpoints as metrics_endpoints
from culvert_service.metrics.agent_calls import counted_agent_calls
from culvert_service.metrics.instruments import Instruments
from culvert_service.metrics.rest_calls import RestCalls
from culvert_service.metrics.state import State
from culvert_service.oidc import endpoints as oidc_endpoints
from culvert_service.oidc.service import Oidc
from culvert_service.periodic import Periodic
from culvert_service.pki.authority import Authority
from culvert_service.pki.master_key import MasterKey
from culvert_service.pki.own_certificates import OwnCertificates
from culvert_service.policies import endpoints as policy_endpoints
from culvert_service.policies.effect import Effects
from culvert_service.policies.service import Groups, Policies
from culvert_service.policies.tracer import Tracer
from culvert_service.resources import endpoints as resource_endpoints
from culvert_service.resources.effect import Effects as ResourceEffects
from culvert_service.resources.service import Resources
from culvert_service.site_tunnels import endpoints as site_tunnel_endpoints
from culvert_service.site_tunnels.fit import check_gateway
from culvert_service.site_tunnels.service import SiteTunnels
from culvert_service.tracing.tracing import Tracing
from culvert_service.tunnels import endpoints as tunnel_endpoints
from culvert_service.tunnels.service import Tunnels
from culvert_service.tunnels.throughput import Throughput
from culvert_service.watch.hub import Hub
from culvert_service.watch.presence import Presence
from culvert_service.watch.pushes import Pushes

if TYPE_CHECKING:
    import grpc.aio

    from culvert_service.oidc.provider import Provider

_log = logging.getLogger(__name__)

# Tunnels and entries by the thousand are computed beside. What a click waits for takes its turn back after this long, and
# not after Python's 5 ms, each of the ten times that it has waited for Postgres or the gateway.
_THREAD_TURN_SECONDS = 0.0005
# Of Python's collector of cycles: objects that are new before young ones are looked through, and how often so before older
# ones are. With its own 700 and 10 what a click holds for milliseconds grows old, and all streams are looked through.
_GARBAGE = (2_000, 50)

# Half of those that it may have: for LISTEN, and for what gateways should hold.
_DIRECT_CONNECTIONS = 2

# A part that does not stop in this time is left and named in the log: systemd would kill the whole process later.
_STOP_SECONDS = 15.0


async def _stop(stop: Callable[[], Awaitable[object]]) -> None:
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await stop()
    except TimeoutError:
        _log.error("a part did not stop in %.0f s: %s", _STOP_SECONDS, getattr(stop, "__qualname__", stop))


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncGenerator[Database]:
    """The database, migrated. Writes state_dir/database-url for dns-updater, which has a database role of its own."""
    settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        url = settings.database_sessions_url
        if url is not None:
            await _check(url, settings)
        else:
            url = await stack.enter_async_context(EmbeddedPostgres(settings.state_dir / "postgres"))
        engine = _engine(url, settings.sessions_setting)
        stack.push_async_callback(engine.dispose)
        await upgrade_apart(engine)
        await _hand_over(settings.state_dir, engine, url)
        if settings.database_direct_url is not None and settings.database_url is not None:
            await engine.dispose()
            engine = _engine(settings.database_url.get_secret_value(), pooled=True)
            stack.push_async_callback(engine.dispose)
        yield bind_database(engine)


def _engine(
    url: str, setting: str = "database_url", *, pool_size: int = 20, pooled: bool = False
) -> AsyncEngine:
    """Raises ConfigurationError."""
    try:
        return connect(url, pool_size=pool_size, pooled=pooled)
    except ValueError as error:
        raise ConfigurationError(f"{setting}: {error}") from None


async def _check(url: str, settings: Settings) -> None:
    """Before anything is written. Raises ConfigurationError."""
    async with AsyncExitStack() as stack:
        engine = _engine(url, settings.sessions_setting, pooled=True)
        stack.push_async_callback(engine.dispose)
        try:
            await check(engine)
        except UnfitDatabaseError as error:
            raise ConfigurationError(f"{settings.sessions_setting}: {error}") from None
        if settings.database_direct_url is not None and settings.database_url is not None:
            pooled = _engine(settings.database_url.get_secret_value(), pooled=True)
            stack.push_async_callback(pooled.dispose)
            if not await hears(engine, pooled):
                raise ConfigurationError("database_url and database_direct_url lead to different databases")


async def _hand_over(state: Path, engine: AsyncEngine, url: str) -> None:
    """Make dns-updater's role and write its database URL. Without a role, delete the URL of an earlier start: it may be
    the owner's.
    """
    file = state / "database-url"
    try:
        own = await dns_role.prepare(engine, url, MasterKey.load(state).password("dns-updater"))
    except dns_role.RoleRefusedError as error:
        file.unlink(missing_ok=True)
        _log.error("%s is not written: %s. Or give dns-updater a database URL yourself", file, error)
    else:
        private_files.write(file, own.encode() + b"\n")


@asynccontextmanager
async def reading(settings: Settings) -> AsyncGenerator[Database]:
    """The database as it is, beside a controller that may be running. Raises ConfigurationError."""
    async with AsyncExitStack() as stack:
        if settings.database_sessions_url is not None:
            engine = _engine(settings.database_sessions_url, settings.sessions_setting)
        else:
            embedded = EmbeddedPostgres(settings.state_dir / "postgres")
            if not embedded.exists:
                raise ConfigurationError(f"state_dir: {settings.state_dir} holds no database")
            if not embedded.serves:
                await stack.enter_async_context(embedded)
            engine = _engine(embedded.url)
        stack.push_async_callback(engine.dispose)
        yield bind_database(engine)


@asynccontextmanager
async def administering(settings: Settings) -> AsyncGenerator[Database]:
    """The database to change, made and migrated unless a controller runs on it already."""
    embedded = EmbeddedPostgres(settings.state_dir / "postgres")
    running = settings.database_url is None and embedded.exists and embedded.serves
    async with reading(settings) if running else open_database(settings) as database:
        yield database


class Controller:
    """`async with Controller(settings, sessions)`: serves from its entry to its exit."""

    def __init__(self, settings: Settings, database: Database) -> None:
        state = settings.state_dir
        self._settings = settings
        self._infrastructure = Authority.load(state, "infrastructure")
        self._gateway_authority = Authority.load(state, "gateway")
        self._device_authority = Authority.load(state, "device")
        master_key = MasterKey.load(state)
        self._hub = Hub()
        self._own = OwnCertificates(
            self._infrastructure,
            self._device_authority,
            self._gateway_authority,
            settings.certificate_names,
            now,
        )
        self._fleet = Fleet(_program(settings), self._credentials)
        me = ControllerId(settings.controller_name)
        self._calls = Calls(database, me, master_key)
        remote = Remote(self._calls, self._fleet)
        self._pushes = Pushes(database, self._hub, me)
        self._presence = Presence(database, self._hub, me, now)
        self._refusals = Refusals(database)
        cut_key = CutKey(master_key)
        keep = datetime.timedelta(days=settings.audit_keep_days) if settings.audit_keep_days else None
        retention = Retention(database, cut_key, now, keep, settings.audit_export_dir)
        self._cutting = Periodic("retention of the audit log", retention.round, LOOK_SECONDS)
        self._identity = Identity(
            database,
            self._refusals,
            self._infrastructure,
            self._device_authority,
            master_key,
            self._hub,
            self._pushes,
            self._presence,
            agent_address=settings.agent_address,
            now=now,
        )
        invitations = Invitations(database, self._infrastructure, settings.rest_url, now)
        approval = settings.device_approval
        drain = datetime.timedelta(seconds=settings.drain_seconds)
        self._instruments = Instruments()
        denials = Denials(database, self._refusals, self._instruments.denied)
        self._tunnels = Tunnels(
            database,
            self._fleet,
            remote,
            self._hub,
            self._pushes,
            denials,
            self._instruments,
            now,
            drain=drain,
            approval=approval,
        )
        self._site_tunnels = SiteTunnels(
            database, self._fleet, self._calls, remote, self._instruments, drain=drain
        )
        enforce = self._tunnels.enforcement.enforce
        self._ownership = Ownership(
            database,
            self._fleet,
            me,
            lambda gateway: config_of(gateway, master_key),
            self._hub.profiles_changed,
            settings.lease_seconds,
        )
        self._revocations = Revocations(database, now)
        self._managed_zones = ManagedZones(database, settings.managed_zones, self._hub.profiles_changed)
        self._direct = (
            None
            if settings.database_direct_url is None
            else _engine(settings.database_direct_url.get_secret_value(), pool_size=_DIRECT_CONNECTIONS)
        )
        at_server = database if self._direct is None else bind_database(self._direct)
        self._listener = Listener(
            at_server,
            {
                GATEWAYS_CHANNEL: self._ownership.look_soon,
                PUSHES_CHANNEL: self._pushes.hear,
                self._site_tunnels.channel: self._site_tunnels.hear,
                self._calls.channel: self._calls.hear,
                self._managed_zones.channel: self._managed_zones.hear,
                self._revocations.channel: self._revocations.hear,
            },
        )
        at_gateways = GatewayState(
            database,
            self._fleet,
            master_key,
            self._tunnels,
            self._site_tunnels,
            self._instruments,
            settings.lease_seconds,
            at_server,
        )
        self._rotation = at_gateways.rotation
        gateways = self.gateways = Gateways(
            database,
            self._fleet,
            self._ownership,
            self._gateway_authority,
            self._infrastructure,
            master_key,
            at_gateways.desired,
        )
        self._sampling = Sampling(database, self._fleet)
        close, refit = self._tunnels.close_to_resource, self._tunnels.refit
        following = self._site_tunnels.following
        self._resources = Resources(
            database, self._hub, close, refit.of_resource, following, enforce, self._managed_zones.of
        )
        self._fleet.connect(
            Hooks(
                at_gateways.reconcile,
                at_gateways.soft_limit,
                self._tunnels.moved,
                self._ownership.fares,
                self._ownership.outbid,
            )
        )
        authenticators = Authenticators(database, master_key, self._pushes, denials, now)
        renewal = Renewal(database, self._infrastructure, self._device_authority, denials, now)
        late_renewal = LateRenewal(
            database,
            renewal,
            authenticators,
            denials,
            self._refusals,
            Challenges(master_key.derived("late renewal")),
            datetime.timedelta(days=settings.late_renewal_days),
            now,
        )
        self._servicer = AgentServicer(
            database,
            self._identity,
            authenticators,
            renewal,
            self._tunnels,
            self._fleet,
            self._hub,
            self._pushes,
            Handover(self._calls, self._fleet),
            denials,
            managed_zones=self._managed_zones,
            protected_prefixes=settings.protected_prefixes,
            now=now,
        )
        throughput = Throughput(self._tunnels.traffic, self._fleet, self._calls)
        for one in (self._servicer, remote, self._site_tunnels, throughput):
            self._calls.serve(one.serving())
        passwords = Passwords()
        proof = Proof(database, master_key, passwords, now)
        admins = Admins(database, master_key, now, passwords, proof, self._refusals)
        account = Account(database, self._refusals, master_key, proof, passwords, now)
        rates = Rates(settings.rest_calls_per_second, settings.rest_strangers_calls_per_second)
        authorities = {
            "infrastructure": self._infrastructure,
            "gateway": self._gateway_authority,
            "device": self._device_authority,
        }
        state_now = State(database, self._fleet, self._hub, authorities)
        access, dns = Access(self._refusals, AdminToken.load(state), admins, rates), Dns(database)
        self._live = Live(database, gateways, dns, throughput)
        effects = Effects(database, self._tunnels.enforcement.would_close)
        oidc = Oidc(database, self._refusals, oidc_provider(settings), master_key, invitations.invite, now)
        self._app = application(
            database,
            access,
            rates,
            master_key,
            now,
            self._infrastructure.pem.decode(),
            settings.console,
            admin=[
                gateway_endpoints.router(
                    gateways, Changes(database, self._ownership, refit.of_gateway, check_gateway)
                ),
                identity_endpoints.router(
                    self._identity,
                    invitations,
                    authenticators,
                    People(database, self._hub, self._pushes, self._tunnels.close_of_devices),
                    self._tunnels.close_of_device,
                    enforce,
                ),
                policy_endpoints.groups_router(Groups(database, enforce, effects)),
                policy_endpoints.policies_router(Policies(database, enforce, effects)),
                policy_endpoints.access_router(
                    Tracer(database, self._fleet.is_online, now, approval=approval)
                ),
                resource_endpoints.router(self._resources, ResourceEffects(database, self._resources)),
                tunnel_endpoints.router(self._tunnels),
                site_tunnel_endpoints.router(self._site_tunnels),
                dns_endpoints.router(dns),
                audit_endpoints.router(database, cut_key, settings.audit_keep_days),
                admin_endpoints.router(admins),
                about_endpoints.router(
                    About(settings, self._managed_zones, self._own, authorities, oidc, now)
                ),
                metrics_endpoints.router(self._instruments, state_now),
                live_endpoints.router(self._live, access),
            ],
            public=[
                identity_endpoints.public_router(self._identity, late_renewal),
                admin_endpoints.public_router(admins, access),
                account_endpoints.public_router(
                    access, account, OwnCredentials(database, now), Notices(database)
                ),
                passkey_endpoints.public_router(
                    access, Passkeys(database, self._refusals, settings.rest_url, now)
                ),
                oidc_endpoints.public_router(oidc),
            ],
            works=[self._ownership.looks, self._tunnels.enforcement.sweeps, self._pushes.looking],
        )
        self._app.add_middleware(RestCalls, instruments=self._instruments)
        self._tracing = Tracing(settings, database)
        self._tracing.add_to(self._app)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Controller:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._tracing.exporting())
            if self._direct is not None:
                stack.push_async_callback(_stop, self._direct.dispose)
            stack.push_async_callback(_stop, self._ownership.release)
            stack.push_async_callback(_stop, self._fleet.stop)
            stack.push_async_callback(_stop, self._tunnels.stop)
            stack.push_async_callback(_stop, self._site_tunnels.stop)
            stack.push_async_callback(_stop, self._sampling.stop)
            stack.push_async_callback(_stop, self._rotation.stop)
            stack.push_async_callback(_stop, self._ownership.stop)
            stack.push_async_callback(_stop, self._calls.stop)
            stack.push_async_callback(_stop, self._pushes.stop)
            stack.push_async_callback(_stop, self._managed_zones.stop)
            stack.push_async_callback(_stop, self._listener.stop)
            await self.gateways.reserve([*self._settings.certificate_names, self._settings.controller_name])
            await self._ownership.start()
            await self._managed_zones.start()
            await self._listener.start()
            await self._pushes.start()
            await self._tunnels.start()
            self._site_tunnels.start()
            self._sampling.start()
            stack.push_async_callback(_stop, self._refusals.stop)
            self._refusals.start()
            self._rotation.start()
            stack.push_async_callback(_stop, self._cutting.stop)
            self._cutting.start()
            stack.push_async_callback(_stop, self._own.stop)
            await self._own.start()
            stack.push_async_callback(_stop, self._presence.stop)
            self._presence.start()
            await stack.enter_async_context(self._agent_server())
            await stack.enter_async_context(servers.rest_server(self._app, self._settings, self._own))
            stack.push_async_callback(_stop, self._live.stop)
            self._stack = stack.pop_all()
        _log.info("ready", extra={"rest": self._settings.rest_url, "agent": self._settings.agent_address})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def openapi(self) -> dict[str, Any]:
        """What the REST API offers, as an OpenAPI document."""
        return self._app.openapi()

    def _credentials(self) -> Credentials:
        own = self._own
        return Credentials(own.gateways_pem, own.chain(own.client), own.client.key_pem)

    @asynccontextmanager
    async def _agent_server(self) -> AsyncGenerator[None]:
        around = [*self._tracing.around_agent_calls(), counted_agent_calls(self._instruments)]
        server = servers.agent_server(self._settings, self._own, around)
        agent_pb2_grpc.add_AgentServiceServicer_to_server(self._servicer, cast("grpc.aio.Server", server))
        await self._revocations.start(server.deny)
        server.start(self._servicer.limited)
        try:
            yield
        finally:
            await self._revocations.stop()
            self._hub.end_all()
            await server.stop(servers.GRACE_SECONDS)


async def serve(settings: Settings) -> None:
    """Until SIGINT or SIGTERM."""
    warn_if_not_locked()
    sys.setswitchinterval(_THREAD_TURN_SECONDS)
    servers.raise_file_limit()
    gc.set_threshold(*_GARBAGE)
    # What was imported stays.
    gc.freeze()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_database(settings) as database, Controller(settings, database):
        await stop.wait()
    _log.info("stopped")


async def migrate(settings: Settings) -> None:
    async with open_database(settings):
        _log.info("migrated")


def oidc_provider(settings: Settings) -> Provider | None:
    """Raises ConfigurationError."""
    issuer, client, file = settings.oidc_issuer, settings.oidc_client_id, settings.oidc_client_secret_file
    if issuer is None or client is None or file is None:
        return None
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"oidc_client_secret_file: {file} cannot be read") from None
    # What a provider needs is a large part of what this process imports, and most have none.
    from culvert_service.oidc.calls import Calls, trust
    from culvert_service.oidc.provider import Provider

    try:
        calls = Calls(issuer, trust(settings.oidc_ca_file))
    except OSError as error:
        raise ConfigurationError(
            f"oidc_ca_file: {settings.oidc_ca_file}: {error.strerror or error}"
        ) from None
    callback = f"{settings.rest_url}/api/v1/oidc/callback"
    return Provider(calls, client, secret, callback, settings.oidc_email_verified_by)


def _program(settings: Settings) -> Program:
    p4info, blob = (settings.p4_artifacts / name for name in ("gateway.p4info.txtpb", "gateway.json"))
    program = Program(p4info, blob, settings.p4runtime_role)
    for file in (program.p4info, program.blob):
        if not file.is_file():
            raise ConfigurationError(f"p4_artifacts: {file} is not there")
    return program
