"""An organisation of this computer: its core, its connection to the controller, its files, its clock.

name service ──┐                                ┌──► answers released or refused
Watch        ──┤ event                  command ├──► calls to the controller
calls        ──┼───────► core.Client ───────────┼──► what it wants of the datapath
counters     ──┤         (pure)                 ├──► files
tray, CLI    ──┘                                └──► replies to tray and CLI

The organisations share the name service, the datapath and the local API (SharedParts).
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Protocol, TypeVar

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.dns_name import canonical, is_wildcard
from culvert_proto.phrases import Phrase

from culvert_client.answering import Answering
from culvert_client.closed import read_kept
from culvert_client.config import Config
from culvert_client.controller.calls import begin
from culvert_client.controller.connection import Connection
from culvert_client.controller.messages import check_claims
from culvert_client.core.activity import Activity, Log
from culvert_client.core.claims import Surroundings, check_prefixes, check_public_space
from culvert_client.core.client import Client
from culvert_client.core.client_events import (
    Applied,
    Apply,
    AskTxt,
    Call,
    CallEnded,
    ClaimsAnswered,
    CodeProven,
    Command,
    Event,
    Fail,
    KeepGateway,
    KeepPause,
    KeepTunnels,
    Left,
    Measured,
    Moved,
    PauseEnded,
    ProfileReceived,
    Reply,
    Settle,
    TxtAnswered,
)  # fmt: skip
from culvert_client.core.consent import Consent, already_agreed
from culvert_client.core.grant import Address, TunnelId
from culvert_client.core.neighbours import Beside, Neighbour
from culvert_client.core.status import status_of
from culvert_client.core.tunnel import events as tunnel
from culvert_client.core.tunnel.machines import gateways_in_use
from culvert_client.daemon.requests import STOP_PATIENCE, Requests
from culvert_client.hop_times import HopTimer, Way, carried
from culvert_client.latency import Latencies
from culvert_client.moves import surroundings
from culvert_client.nat64_reach import Nat64Reach
from culvert_client.path_mtus import PathMtus
from culvert_client.platform.interfaces import DaemonPlatform
from culvert_client.state_dir import Identity, StateDir
from culvert_client.state_file import not_kept
from culvert_client.stub.resolver import Resolver
from culvert_client.stub.upstream import Upstream
from culvert_client.tasks import Changes, Tasks

log = logging.getLogger("culvertd")
VERSION = version("culvert-client")

# Our tunables, in seconds.
LOOK_AGAIN = 5.0
ENROLMENT_PATIENCE = 5.0

# Six digits or a recovery code; other texts are refused without a call.
_CODE = re.compile(r"[0-9]{6}|[A-Za-z2-7]{4}(-?[A-Za-z2-7]{4}){3}")

Value = TypeVar("Value")


class DatapathRequests(Protocol):
    """An organisation's requests to the shared datapath; DatapathOwner conforms."""

    def request_apply(self, organisation: Organisation, apply: Apply) -> None: ...
    def claims_changed(self, organisation: Organisation) -> None: ...
    async def measure(self) -> Measured | None: ...
    async def probe(self, organisation: Organisation, targets: Mapping[TunnelId, Address]) -> None: ...


class Others(Protocol):
    """Access to the other organisations; Router conforms."""

    def others(self, organisation: Organisation) -> Sequence[Organisation]: ...
    def see_awake(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SharedParts:
    """The parts that all organisations use."""

    settings: Config
    nat64: Nat64Reach
    upstream: Upstream
    resolver: Resolver
    datapath: DatapathRequests
    router: Others
    changes: Changes
    log: Log
    platform: DaemonPlatform


class Organisation:
    """`number`: identifies the organisation. A computer that is not enrolled has one without an identity."""

    def __init__(self, number: int, state: StateDir, shared: SharedParts) -> None:
        self.number = number
        self._state, self._shared = state, shared
        identity = state.identity()
        settings, platform = shared.settings, shared.platform
        found = read_kept(state, settings.state_dir, platform.name_services, settings.public_prefixes)
        answers = already_agreed(found.profile) if found.consent is None else found.consent
        self.consent = replace(answers, allowed=settings.public_prefixes)
        forgotten: dict[str, CulvertError] = {}
        self.client = Client(
            found.profile,
            _read_choices(state.gateway, "", Phrase("The choice of a gateway is forgotten"), forgotten),
            _read_choices(state.tunnels, {}, Phrase("Tunnels of the last run are not closed"), forgotten)
            if identity
            else {},
            _read_choices(state.paused_until, 0, Phrase("A pause is forgotten"), forgotten),
        )
        self.client.file_warnings.update(forgotten)
        for fault in found.faults:
            log.error("%s", fault)
            self.client.unreadable[fault.fields["path"]] = fault
        if found.consent is None and identity is not None:
            self._keep("consent.json", lambda: state.keep_consent(answers))
        self.latencies = Latencies(platform.ping_sockets, shared.nat64.reach)
        self._tasks = Tasks()
        self.connection = Connection(
            state,
            # Do not pass a damaged certificate or key on: gRPC would abort the process.
            None if found.identity_is_damaged else identity,
            self.client,
            self.post,
            self._tasks.start,
            VERSION,
            self,
            platform,
            shared.nat64.reach,
            portal_probe=settings.portal_probe,
        )
        self.requests = Requests(self.client, self.post, shared.changes, self.connection.check)
        reach, sockets = shared.nat64.reach, platform.ping_sockets
        self._answering = Answering(self.client, self.latencies, self, self.post, self._now, reach, sockets)
        self.paths = PathMtus(
            self.client, self.post, lambda: self.connection.agent, self._now, reach, sockets
        )
        self._hop_timer = HopTimer(shared.upstream, sockets)
        self._asks: dict[str, asyncio.Task[None]] = {}
        self._activity = Activity(shared.log, number)
        self._unkept: Mapping[str, TunnelId] | None = None
        self._pause: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def owner(self) -> int | None:
        return self.connection.identity.owner if self.connection.identity is not None else None

    @property
    def name(self) -> str:
        """The name for people; the number if there is no controller."""
        identity = self.connection.identity
        return str(self.number) if identity is None else organisation_name(identity.controller)

    def start(self) -> None:
        self.connection.open()
        self._end_pause_at(self.client.paused_until)
        self.post(tunnel.Tick())

    def measure_round_trips(self) -> None:
        self._tasks.start(self.latencies.keep(lambda: self.client.profile.gateways))
        self._tasks.start(self.paths.keep())
        self._tasks.start(self.paths.keep_telling())

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.cancel()
        await self.connection.close()

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def post(self, event: Event) -> None:
        commands = self.client.handle(event, self._now())
        self._activity.observe(self.client, event, commands, time.time())
        for command in commands:
            self._execute(command)
        self._keep_tunnels(event)
        if isinstance(event, ProfileReceived):
            self._shared.datapath.claims_changed(self)
        self._look_at_gateways()
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.client.deadline()
        loop = asyncio.get_running_loop()
        self._timer = None if deadline is None else loop.call_at(deadline, lambda: self.post(tunnel.Tick()))
        self._shared.changes.tell()

    def _execute(self, command: Command) -> None:
        match command:
            case AskTxt(fqdn):
                self._tasks.start(self._ask_txt(fqdn))
            case Reply():
                self._shared.resolver.settle(command)
            case Fail(error=error):
                log.info("refused: %s", error)
                self._shared.resolver.settle(command)
            case Call():
                self._tasks.start(self._end(self._begin(command)))
            case Apply():
                self._shared.datapath.request_apply(self, command)
            case Settle():
                self.requests.settle(command)
            case KeepTunnels(tunnels):
                self._unkept = tunnels
            case KeepGateway(gateway):
                self._keep("gateway", lambda: self._state.keep_gateway(gateway))
            case KeepPause(until):
                self._keep("paused", lambda: self._state.keep_pause(until))
                self._end_pause_at(until)

    def _look_at_gateways(self) -> None:
        self._asks = {gateway: task for gateway, task in self._asks.items() if not task.done()}
        for gateway in self.client.doubtful_gateways(self._now()) - self._asks.keys():
            self._asks[gateway] = self._tasks.start(self._answering.keep(gateway))

    def on_roam(self) -> None:
        """The computer is in another network."""
        self.latencies.measure_anew()
        self.paths.begin_anew()
        self.post(Moved())

    async def open_tunnel(self, name: str) -> str:
        """Open a tunnel, and probe its gateway. Returns the tunnel's name. Raises CulvertError."""
        self.connection.check()
        self._shared.router.see_awake()
        for fqdn in self.client.profile.fqdns_of(name):
            try:
                return await self._open(fqdn)
            except CulvertError as error:
                if error.reason is not Reason.NAME_UNKNOWN or self.client.profile.fqdn_of(name) is not None:
                    raise
        raise CulvertError(Reason.NAME_NOT_OFFERED, name=name)

    async def _open(self, name: str) -> str:
        if self.client.is_silent(name):
            # The gateway may answer again now.
            await self._ask_gateway(name)
        fqdn = await self.requests.open_tunnel(name)
        await self._ask_gateway(fqdn)
        if (silence := self.client.silence(fqdn)) is not None:
            raise silence
        return fqdn

    async def time_hops(self, name: str) -> local_pb2.HopTimes:
        """Open a tunnel, and time each hop to the name's page. Raises CulvertError."""
        fqdn = await self.open_tunnel(name)
        machine, profile = self.client.machines.get(fqdn), self.client.profile
        if machine is None or machine.carried is None:
            raise CulvertError(Reason.TUNNEL_UNKNOWN)
        carries = machine.carried.tunnel
        outside = next((it.address for it in profile.gateways if it.name == carries.gateway), None)
        reached = self._shared.nat64.reach(outside) if outside is not None else None
        asked = (canonical(name), *profile.fqdns_of(name)) if is_wildcard(fqdn) else ()
        below = (it for it in asked if not is_wildcard(it) and profile.tunnel_of(it) == fqdn)
        way = Way(fqdn, carries, reached, profile.addresses_of(fqdn), next(below, ""))
        timed = await self._hop_timer.time(way)
        self._shared.changes.tell()
        return timed

    def explains(self, fqdn: str) -> bool:
        return self.client.profile.explains(fqdn)

    async def list_carried(self, fqdn: str) -> Collection[Address]:
        """The name's addresses behind its tunnel; empty while the tunnel is not up."""
        machine = self.client.machines.get(self.client.profile.tunnel_of(fqdn))
        if machine is None or machine.carried is None or not machine.is_up:
            return ()
        known = self.client.profile.addresses_of(fqdn)
        return carried(known or await self._shared.upstream.ask_addresses(fqdn), machine.carried.tunnel)

    async def _ask_gateway(self, fqdn: str) -> None:
        machine = self.client.machines.get(fqdn)
        if machine is not None and machine.carried is not None:
            await self._answering.ask({machine.carried.tunnel.gateway}, through=True)

    async def probe(self, targets: Mapping[TunnelId, Address]) -> None:
        await self._shared.datapath.probe(self, targets)

    async def measure(self) -> None:
        await self._shared.datapath.measure()

    def _keep_tunnels(self, event: Event) -> None:
        """Write the file only after the datapath has applied its state, for which a person waits."""
        if self._unkept is not None and (isinstance(event, Applied) or self.client.is_applied):
            tunnels, self._unkept = self._unkept, None
            self._keep("tunnels.json", lambda: self._state.keep_tunnels(tunnels))

    def _keep(self, name: str, write: Callable[[], None]) -> None:
        path = self._state.path_of(name)
        try:
            write()
        except (OSError, CulvertError) as error:
            # A full disk must not stop tunnels.
            warning = self.client.file_warnings[str(path)] = not_kept(path, error)
            log.error("%s", warning)
        else:
            self.client.files_kept(str(path))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _end_pause_at(self, until: int) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._pause = self._tasks.start(self._end_pause(until)) if until else None

    async def _end_pause(self, until: int) -> None:
        # Use the wall clock: the loop's clock stands still while the computer sleeps.
        while (left := until - time.time()) > 0:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(min(left, LOOK_AGAIN))
        self._pause = None
        self.post(PauseEnded())

    async def _ask_txt(self, fqdn: str) -> None:
        self.post(TxtAnswered(fqdn, await self._shared.upstream.ask_mark(fqdn)))

    # ── controller ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, call: Call) -> Awaitable[CallEnded]:
        agent = self.connection.agent
        if agent is None:
            return self._end_call(call, CulvertError(Reason.NOT_ENROLLED))
        return begin(
            agent,
            call,
            udp_port=self._shared.settings.udp_port,
            legacy_suites=self._shared.settings.legacy_suites,
            distances=self.paths.distances(self.latencies.distances(gateways_in_use(self.client.machines))),
            asked_at=self._now(),
            beside=self.beside,
            consent=lambda: self.consent,
        )

    async def _end_call(self, call: Call, error: CulvertError) -> CallEnded:
        return CallEnded(call.fqdn, tunnel.Failed(call.command.call, error))

    async def _end(self, call: Awaitable[CallEnded]) -> None:
        ended = await call
        if isinstance(ended.event, tunnel.TunnelOpened):
            self.paths.expect(ended.event.tunnel)
        self.post(ended)

    async def look_around(self) -> None:
        for other in self._shared.router.others(self):
            agent = other.connection.agent
            if agent is not None and not agent.surroundings.controller:
                agent.surroundings = await self.surroundings(agent.address)

    async def surroundings(self, controller: str) -> Surroundings:
        return await surroundings(self._shared.platform.networks.uplinks, controller)

    def name_servers(self) -> frozenset[Address]:
        # Name servers in root's settings are not checked against claims.
        found = () if self._shared.settings.dns_upstream else self._shared.upstream.servers
        return frozenset(ip_address(it.host) for it in found)

    def beside(self) -> Beside:
        return Beside(self.name, [other.as_neighbour() for other in self._shared.router.others(self)])

    def as_neighbour(self) -> Neighbour:
        tunnels = (machine.desired() for machine in self.client.machines.values())
        agent = self.connection.agent
        return Neighbour(
            self.name,
            self.client.profile,
            tuple(sas for sas in tunnels if sas is not None),
            agent.surroundings.controller if agent is not None else frozenset(),
        )

    async def prove_code(self, code: str) -> local_pb2.SubmitCodeResponse:
        """Prove a code; it also renews an expired certificate. Raises CulvertError."""
        agent, _ = self.connection.check()
        _check_code(code)
        if self.connection.has_expired:
            return await self._renew_late(code)
        try:
            proof = await agent.prove_code(code)
        except CulvertError as error:
            if error.reason is not Reason.CERTIFICATE_EXPIRED:
                raise
            return await self._renew_late(code)
        self.post(CodeProven(proof.code_valid_until))
        left = proof.recovery_codes_left if proof.HasField("recovery_codes_left") else None
        return local_pb2.SubmitCodeResponse(code_valid_until=proof.code_valid_until, recovery_codes_left=left)

    async def _renew_late(self, code: str) -> local_pb2.SubmitCodeResponse:
        renewed = await self.connection.renew_late(code)
        until, left = renewed.code_valid_until, renewed.recovery_codes_left
        self.post(CodeProven(until))
        # Wait for the connection, because the answer says that tunnels can be opened.
        await self._shared.changes.until(lambda: self.client.connected, ENROLMENT_PATIENCE)
        return local_pb2.SubmitCodeResponse(code_valid_until=until, recovery_codes_left=left)

    async def answer_claims(self, prefixes: Sequence[str], *, agreed: bool) -> None:
        """Apply the person's answer about public networks. Raises CulvertError, and then changes nothing."""
        agent, _ = self.connection.check()
        try:
            wanted = list(map(ip_network, prefixes))
        except ValueError as error:
            raise CulvertError(Reason.REQUEST_INVALID, why=str(error)) from None
        check_prefixes(wanted)
        consent = self.consent.with_answer(wanted, agreed=agreed)
        profile = consent.apply(self.client.profile)
        if agreed:
            check_public_space([*consent.agreed, *profile.offered])
            await check_claims(profile, agent, self.client.profile, self)
            # Compute the consent after the check, during which another answer may have arrived.
            consent = self.consent.with_answer(wanted, agreed=agreed)
        self._state.keep_consent(consent)
        self.client.files_kept(str(self._state.path_of("consent.json")))
        self.consent = consent
        # Apply it to the present profile, which may have changed meanwhile.
        self.post(ClaimsAnswered(consent.apply(self.client.profile)))
        for fqdn, machine in list(self.client.machines.items()):
            if (carried := machine.carried) is not None and consent.missing(carried.tunnel):
                self.post(tunnel.CloseRequested(Reason.CLOSED_BY_USER, fqdn))

    # ── enrolment ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def take(self, identity: Identity) -> None:
        """Use a new enrolment's identity, and delete the consent of an earlier one. Raises OSError."""
        await self._end_tunnels()
        self._hop_timer.newest.clear()
        self.consent = Consent(allowed=self._shared.settings.public_prefixes)
        await self.connection.take(identity)

    async def settle(self) -> None:
        """Wait at most ENROLMENT_PATIENCE until the controller's profile has arrived and its prefixes are blocked."""
        await self._shared.changes.until(lambda: self.client.is_told, ENROLMENT_PATIENCE)

    async def leave(self) -> None:
        """Close all tunnels and the connection, and remove everything from the datapath."""
        await self._end_tunnels()
        # No more events of its controller may arrive.
        await self.connection.leave()
        self.post(Left())
        await self._shared.changes.until(lambda: self.client.is_quiet, STOP_PATIENCE)
        await self.close()

    async def retire(self) -> None:
        """Stop, to be replaced by another organisation; protected prefixes stay blocked until then."""
        await self._end_tunnels()
        await self.connection.close()
        await self.close()

    @property
    def path(self) -> Path:
        """The directory of its files."""
        return self._state.path

    async def _end_tunnels(self) -> None:
        self.post(tunnel.CloseRequested(Reason.CLOSED_BY_USER))
        await self._shared.changes.until(lambda: self.client.is_quiet, STOP_PATIENCE)

    def status(self, *, epoch: float, datapath: str) -> local_pb2.Status:
        identity = self.connection.identity
        status = status_of(
            self.client,
            controller=identity.controller if identity is not None else None,
            epoch=epoch,
            now=self._now(),
            version=VERSION,
            datapath=datapath,
            round_trips=self.latencies.known,
        )
        status.hop_times.extend(self._hop_timer.newest.values())
        return status


def _read_choices(
    read: Callable[[], Value], otherwise: Value, what: Phrase, forgotten: dict[str, CulvertError]
) -> Value:
    """Read a file of choices, or return `otherwise` if it is unreadable: no blocked prefix depends on it."""
    try:
        return read()
    except CulvertError as error:
        path, why = error.fields["path"], error.fields["why"]
        warning = forgotten[path] = CulvertError(Reason.STATE_FORGOTTEN, path=path, why=why, what=what)
        log.warning("%s", warning)
        return otherwise


def organisation_name(controller: str) -> str:
    """`controller`: an https URL with a port."""
    return controller.removeprefix("https://").removesuffix(":443")


def _check_code(text: str) -> None:
    """Raises CulvertError REQUEST_INVALID."""
    if not _CODE.fullmatch(text):
        raise CulvertError(
            Reason.REQUEST_INVALID, why=Phrase("a code has six digits, a recovery code 16 characters")
        )
