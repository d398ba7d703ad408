"""The whole client without its sockets: it handles the events of DNS, controller, datapath and person.

QueryHeld, TxtAnswered ─► Holds ──Demanded──► Machine (one per name) ──► Call (controller)
                            ▲                    │        │
                            └── opened, refused ◄┘        └─ Install ──► Apply (datapath, the whole of it)
                            │
                            ▼
                       Reply, Fail (DNS)
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from culvert_proto import CulvertError, Reason

from culvert_client.core.clicks import Clicks
from culvert_client.core.client_events import (
    AnswerSeen,
    Applied,
    AskTxt,
    Call,
    CallEnded,
    ClaimsAnswered,
    CodeProven,
    Command,
    ControllerLost,
    Enrolled,
    Event,
    Fail,
    GatewaysAsked,
    GatewaySelected,
    KeepGateway,
    KeepPause,
    KeepTunnels,
    Left,
    Measured,
    Moved,
    NameSeen,
    OpenRequested,
    PacketTrapped,
    PathsMeasured,
    PauseEnded,
    PauseRequested,
    ProfileReceived,
    QueryHeld,
    Reply,
    Settle,
    SoftLimitReached,
    Stopping,
    TxtAnswered,
    UpstreamAnswered,
    Woke,
)  # fmt: skip
from culvert_client.core.desired_tunnels import Applies, DesiredTunnels
from culvert_client.core.faults import AWAY, CONTROLLER, DATAPATH, Fault, Faults
from culvert_client.core.grant import Address, TunnelId
from culvert_client.core.holds import Demanded, HoldFailed, Holds, Outcome, Replied
from culvert_client.core.profile import Profile
from culvert_client.core.silence import Silences, is_unproven
from culvert_client.core.transfers import Transfers
from culvert_client.core.triggers import Triggers
from culvert_client.core.tunnel import events as tunnel
from culvert_client.core.tunnel.machine import Machine
from culvert_client.core.tunnel.machines import list_held, name_of
from culvert_client.core.tunnel.states import Closed, Closing, Opening

# The controller refuses this device: its tunnels on the gateways are closed.
SHUT_OUT = frozenset({Reason.DEVICE_REVOKED, Reason.CERTIFICATE_UNKNOWN})
_OPENED_AGAIN = frozenset({Reason.SA_LOST, Reason.TUN_LOST})
_UNEXPLAINED_MAX = 100


class Client:
    """`profile`: the last known one, whose prefixes are blocked before the controller answers.

    `leftovers`: tunnels that an earlier run did not close. They are closed first, because keys must not be used again
    after a restart (RFC 8221). `paused_until`: Unix seconds, 0 without a pause. During a pause no tunnel opens, DNS
    answers do not wait, and protected prefixes stay blocked.
    """

    def __init__(
        self,
        profile: Profile,
        gateway: str = "",
        leftovers: Mapping[str, TunnelId] | None = None,
        paused_until: int = 0,
    ) -> None:
        self.profile = profile
        self.gateway = gateway
        self.paused_until = paused_until
        self.controller_error: CulvertError | None = None
        # By path, until the file is written: unreadable files that block something, and other faults of files.
        self.unreadable: dict[str, CulvertError] = {}
        self.file_warnings: dict[str, CulvertError] = {}
        self.connected = False
        # By name, the last tunnel that a call found ended before the controller's message about its end.
        self._unexplained: dict[str, TunnelId] = {}
        self.drops: Mapping[TunnelId, Mapping[str, int]] = {}
        self.all_drops: Mapping[str, int] = {}
        self._calls = itertools.count(1)
        self.machines = {
            fqdn: Machine(
                self._calls, Closing(tunnel_id, Reason.DAEMON_STOPPED, frozenset(), None, 0, retry_at=0.0)
            )
            for fqdn, tunnel_id in (leftovers or {}).items()
        }
        self.clicks = Clicks(self.machines)
        self._holds = Holds(passing=paused_until != 0)
        self._triggers = Triggers()
        # By tunnel: the alias that a program asked for.
        self._asked_as: dict[str, str] = {}
        self._faults = Faults()
        self._applies = Applies()
        self._kept: Mapping[str, TunnelId] = dict(leftovers or {})
        self._desired = DesiredTunnels()
        self._stopping = False
        self._silences = Silences()
        self.path_mtus: Mapping[Address, int] = {}
        self.transfers = Transfers()
        self.code_proven_at: float | None = None

    @property
    def last_fault(self) -> Fault | None:
        """The newest denial or fault that has not ended; while the controller is unreachable, the cause of that."""
        away = self._faults.of(CONTROLLER) if not self.connected else None
        return away or self._faults.newest

    @property
    def needs_late_renewal(self) -> bool:
        """Whether this computer's certificate has expired and a code can renew it."""
        error = self.controller_error
        return error is not None and error.reason is Reason.CERTIFICATE_EXPIRED

    @property
    def is_quiet(self) -> bool:
        """Whether all tunnels are closed and the datapath is up to date."""
        return not self.machines and self.is_applied

    @property
    def is_applied(self) -> bool:
        """Whether the datapath has applied the newest desired state."""
        return self._applies.are_done

    @property
    def is_told(self) -> bool:
        """Whether the datapath has applied the controller's profile, or the controller has given an error instead."""
        return (self.connected or self.controller_error is not None) and self.is_applied

    def is_open(self, fqdn: str) -> bool:
        """Whether the name's tunnel is up."""
        machine = self.machines.get(self.profile.tunnel_of(fqdn))
        return machine is not None and machine.is_up

    def asks_controller_first(self, fqdn: str) -> bool:
        """Whether the controller is called before the query and TXT go to the name server, because the call takes longer.

        If the tunnel is up, the controller is not called, and the query waits only for the name server.
        """
        return not self.is_open(fqdn)

    def is_silent(self, fqdn: str) -> bool:
        """Whether the name's tunnel is up but its gateway does not answer, or answers only short packets."""
        machine = self.machines.get(self.profile.tunnel_of(fqdn))
        return machine is not None and self._silences.is_unusable(machine)

    def is_unproven(self, fqdn: str) -> bool:
        """Whether the name's tunnel is up but its gateway has not answered yet."""
        machine = self.machines.get(self.profile.tunnel_of(fqdn))
        if machine is None or machine.carried is None or not machine.is_up:
            return False
        return is_unproven(self.machines, machine.carried) and not self._silences.covers(machine)

    def silence(self, fqdn: str) -> CulvertError | None:
        """The fault of the name's tunnel when `is_silent`."""
        machine = self.machines.get(self.profile.tunnel_of(fqdn))
        return self._silences.error(fqdn, machine) if machine is not None else None

    def doubtful_gateways(self, now: float) -> frozenset[str]:
        """The gateways to probe now."""
        return self._silences.doubtful(self.machines, self.profile, now)

    def files_kept(self, path: str | None = None) -> None:
        """Forget faults of a state file that was written with its copy; None: of all files."""
        for faults in (self.unreadable, self.file_warnings):
            for known in list(faults):
                if path is None or known.removesuffix(".copy") == path:
                    del faults[known]

    def handle(self, event: Event, now: float) -> list[Command]:
        commands = self._handle(event, now)
        for fqdn in [fqdn for fqdn, machine in self.machines.items() if isinstance(machine.state, Closed)]:
            del self.machines[fqdn]
            self._asked_as.pop(fqdn, None)
        self._tell_silences(now)
        desired = self._desired.of(self.machines, self.profile, self.gateway, self.path_mtus)
        commands += self._applies.tell(desired, now)
        kept = list_held(self.machines)
        if kept != self._kept:
            self._kept = kept
            commands.append(KeepTunnels(kept))
        return commands

    def deadline(self) -> float | None:
        """When tunnel.Tick is due."""
        times = [
            self._holds.deadline(),
            self._applies.deadline(),
            self._faults.deadline(),
            *(it.deadline() for it in self.machines.values()),
        ]
        return min((at for at in times if at is not None), default=None)

    def _handle(self, event: Event, now: float) -> list[Command]:
        match event:
            case QueryHeld(query, fqdn):
                return self._query_held(query, fqdn, now)
            case UpstreamAnswered(query, addresses, aliases):
                if addresses is not None and (held := self._holds.name_of(query)) is not None:
                    self.clicks.step(self.profile.tunnel_of(held), "answered", now)
                return self._follow(self._holds.take_answer(query, addresses, aliases, self.profile), now)
            case TxtAnswered(fqdn, marked):
                self.clicks.step(self.profile.tunnel_of(fqdn), "txt", now)
                held = self._holds.txt(fqdn, marked, self.profile)
                return self._follow([*held, *self._triggers.txt(fqdn, marked, self.profile, now)], now)
            case NameSeen() | PacketTrapped() if self.paused_until:
                return []
            case NameSeen() | AnswerSeen() | PacketTrapped():
                return self._follow(self._triggers.take_event(event, self.profile, now), now)
            case OpenRequested(request, name):
                return self._open_asked(request, name, now)
            case tunnel.CloseRequested(fqdn=fqdn):
                self._triggers.note_close([fqdn] if fqdn else self.machines, now)
                return self._to_tunnels(event, now, fqdn)
            case GatewaySelected(gateway):
                self.gateway = gateway
                return [KeepGateway(gateway)]
            case CallEnded():
                return self._call_ended(event, now)
            case Applied(number, error):
                return self._datapath_answered(number, error, now)
            case ProfileReceived(profile):
                self.profile, self.connected, self.controller_error = profile, True, None
                self._faults.cure(CONTROLLER)
                self._faults.controller_back()
                return self._to_tunnels(tunnel.ControllerBack(), now)
            case ClaimsAnswered(profile):
                self.profile = profile
                self._faults.claims_answered()
                return []
            case ControllerLost(error):
                return self._controller_lost(error, now)
            case tunnel.ClosedByController():
                return self._tunnel_lost(event, now)
            case tunnel.GatewayMoved(tunnel_id) | tunnel.SoftLimit(tunnel_id):
                return self._to_tunnels(event, now, name_of(self.machines, tunnel_id))
            case SoftLimitReached(tunnel_id, spi):
                return self._soft_limit_reached(tunnel_id, spi, now)
            case CodeProven(valid_until):
                self.profile, self.code_proven_at = self.profile.with_code(valid_until), now
                self._faults.code_proven()
                return []
            case Measured(usage, drops, all_drops):
                self.drops, self.all_drops = drops, all_drops
                commands: list[Command] = []
                for tunnel_id, used in usage.items():
                    if (fqdn := name_of(self.machines, tunnel_id)) is not None:
                        commands += self._to_tunnel(fqdn, tunnel.Counted(used), now)
                self._silences.take_counters(self.machines)
                self.transfers.take_counters(usage, now)
                return commands
            case GatewaysAsked(answered, silent, pinged):
                self._silences.take_pings(answered, silent, pinged, now)
                return []
            case PathsMeasured():
                self.path_mtus = event.mtus
                self._silences.narrow = event.narrow
                return []
            case Moved():
                self._silences.forget()
                return []
            case Woke(seconds):
                return self._woke(seconds, now)
            case Enrolled():
                return self._forget(now)
            case Left():
                # End all held queries of this organisation with an error.
                commands = [*self._forget(now), *self._follow(self._holds.expire(float("inf")), now)]
                self.profile = Profile()
                self.files_kept()
                return commands
            case PauseRequested(until):
                return [
                    self._pause(until),
                    *self._to_tunnels(tunnel.CloseRequested(Reason.CLOSED_BY_USER), now),
                ]
            case PauseEnded():
                return [self._pause(0)]
            case Stopping():
                self._stopping = True
                return self._to_tunnels(tunnel.CloseRequested(Reason.DAEMON_STOPPED), now)
            case tunnel.Tick():
                self._faults.forget_old(now)
                commands = self._follow(self._holds.expire(now), now)
                return commands + self._to_tunnels(event, now)

    def _tell_silences(self, now: float) -> None:
        self._silences.forget_unused(self.machines)
        begun, over = self._silences.take_news(self.machines)
        for fqdn, error in begun.items():
            self._faults.note(fqdn, error, now)
        for fqdn in over:
            self._faults.answers_again(fqdn)

    def _pause(self, until: int) -> Command:
        self.paused_until, self._holds.passing = until, until != 0
        return KeepPause(until)

    # ── demands ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _query_held(self, query: tunnel.QueryId, fqdn: str, now: float) -> list[Command]:
        if self.paused_until or not self.asks_controller_first(fqdn):
            return self._follow(self._holds.hold(query, fqdn, self.profile, now), now)
        self.clicks.step(self.profile.tunnel_of(fqdn), "query", now, starts=True)
        asks_txt = self._holds.asks_txt(fqdn)
        commands = self._follow(self._holds.hold(query, fqdn, self.profile, now), now)
        return [*commands, AskTxt(fqdn)] if asks_txt else commands

    def _open_asked(self, request: tunnel.RequestId, name: str, now: float) -> list[Command]:
        fqdn = self.profile.fqdn_of(name)
        if fqdn is None:
            return [Settle(request, name, CulvertError(Reason.NAME_NOT_OFFERED, name=name))]
        if (silence := self.silence(fqdn)) is not None:
            return [Settle(request, fqdn, silence)]
        return self._demand(request, fqdn, now)

    def _demand(self, demander: tunnel.Demander, fqdn: str, now: float, asked: str = "") -> list[Command]:
        """`asked`: an alias of the tunnel's name, or empty."""
        if self._stopping or self.paused_until:
            reason = Reason.DAEMON_STOPPED if self._stopping else Reason.PAUSED
            return self._refuse(fqdn, frozenset({demander}), CulvertError(reason), now)
        if not isinstance(demander, tunnel.Trigger):
            self._triggers.forget_close(fqdn)
        self.machines.setdefault(fqdn, Machine(self._calls))
        self._asked_as[fqdn] = asked
        return self._to_tunnel(fqdn, tunnel.Demand(demander), now)

    def _follow(self, outcomes: Sequence[Outcome | AskTxt], now: float) -> list[Command]:
        commands: list[Command] = []
        for outcome in outcomes:
            match outcome:
                case AskTxt():
                    commands.append(outcome)
                case Demanded(demander, fqdn, asked):
                    name, own = self.profile.tunnel_of(fqdn), self.profile.tunnel_of(asked)
                    self.clicks.goes_on_as(own, name)
                    commands += self._demand(demander, name, now, asked if own != name else "")
                case Replied(query, carrier, addresses, without, error, is_misled):
                    name = self.profile.tunnel_of(carrier)
                    if addresses:
                        self._triggers.learn(carrier, addresses, self.profile)
                        self.clicks.step(name, "released", now)
                    if error is not None and is_misled:
                        self._faults.note(name, error, now)
                    machine = self.machines.get(name)
                    is_over = machine is None or machine.is_up
                    if addresses or (is_over and not self._waits(name)):
                        self.clicks.end(name)
                    commands.append(Reply(query, without, error))
                case HoldFailed(query, fqdn, error, carrier):
                    name = self.profile.tunnel_of(carrier)
                    self._faults.note(name, error, now)
                    # A browser queries A, AAAA and HTTPS: another query may still be answered.
                    if not self._waits(name):
                        self.clicks.end(name, error)
                    commands.append(Fail(query, fqdn, error))
        return commands

    def _waits(self, name: str) -> bool:
        """Whether a held answer waits for the tunnel of that name."""
        return any(self.profile.tunnel_of(fqdn) == name for fqdn in self._holds.carriers())

    def _release(self, fqdn: str, demanders: frozenset[tunnel.Demander], now: float) -> list[Command]:
        carried = self.machines[fqdn].carried
        assert carried is not None
        self._faults.cure(fqdn)
        self.clicks.step(fqdn, "sas_in", now)
        queries, requests = _split(demanders)
        commands: list[Command] = [Settle(request, fqdn) for request in requests]
        commands += self._follow(self._holds.take_tunnel(queries, carried.tunnel, self.profile, now), now)
        if not self._waits(fqdn):
            self.clicks.end(fqdn)
        return commands

    def _refuse(
        self, fqdn: str, demanders: frozenset[tunnel.Demander], error: CulvertError, now: float
    ) -> list[Command]:
        self._faults.note(fqdn, error, now)
        queries, requests = _split(demanders)
        commands: list[Command] = [Settle(request, fqdn, error) for request in requests]
        commands += self._follow(self._holds.refuse(queries, error, self.profile, now), now)
        self.clicks.end(fqdn, error)
        return commands

    # ── tunnels ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _to_tunnels(self, event: tunnel.Event, now: float, fqdn: str | None = None) -> list[Command]:
        names = [fqdn] if fqdn is not None else list(self.machines)
        return [command for name in names for command in self._to_tunnel(name, event, now)]

    def _to_tunnel(self, fqdn: str, event: tunnel.Event, now: float) -> list[Command]:
        machine = self.machines.get(fqdn)
        if machine is None:
            return []
        commands: list[Command] = []
        for command in machine.handle(event, now):
            match command:
                case tunnel.Install(call):
                    self._applies.await_next(fqdn, call)
                case tunnel.Release(demanders):
                    commands += self._release(fqdn, demanders, now)
                case tunnel.Refuse(demanders, error):
                    commands += self._refuse(fqdn, demanders, error, now)
                case _:
                    asked = ""
                    if isinstance(command, tunnel.OpenTunnel):
                        self.clicks.step(fqdn, "request", now, starts=True)
                        asked = self._asked_as.get(fqdn, "")
                    commands.append(Call(fqdn, self.gateway, command, asked))
        return commands

    def _call_ended(self, ended: CallEnded, now: float) -> list[Command]:
        commands: list[Command] = []
        match ended.event:
            case tunnel.Failed(call, CulvertError(reason=Reason.CONTROLLER_UNREACHABLE)):
                away = self.controller_error
                if away is not None and away.reason in AWAY:
                    ended = CallEnded(ended.fqdn, tunnel.Failed(call, away))
            case _:
                pass
        match ended.event:
            case tunnel.TunnelOpened(asked_at=asked_at, decided=decided, programmed=programmed) as opened:
                commands += self._end_others(ended.fqdn, opened.tunnel.tunnel_id, now)
                self.clicks.step(ended.fqdn, "decided", asked_at + decided)
                self.clicks.step(ended.fqdn, "programmed", asked_at + programmed)
                self.clicks.step(ended.fqdn, "reply", now)
            case tunnel.Renewed():
                self._faults.cure(ended.fqdn)
            case tunnel.Failed(error=error):
                self._faults.note(ended.fqdn, error, now)
                self.clicks.step(ended.fqdn, "reply", now)
            case _:
                pass
        return commands + self._to_changed_tunnel(ended, now)

    def _to_changed_tunnel(self, ended: CallEnded, now: float) -> list[Command]:
        """Give a call's end to its tunnel. A call that met lost keys opens the tunnel again, as ClosedByController does."""
        machine = self.machines.get(ended.fqdn)
        carried = machine.carried if machine is not None and machine.is_up else None
        commands = self._to_tunnel(ended.fqdn, ended.event, now)
        if machine is None or carried is None or not isinstance(machine.state, Closed):
            return commands
        match ended.event:
            case tunnel.Failed(error=CulvertError(reason=Reason.TUNNEL_UNKNOWN)):
                # The message that says why the tunnel ended is on its way.
                self._unexplained[ended.fqdn] = carried.tunnel.tunnel_id
                if len(self._unexplained) > _UNEXPLAINED_MAX:
                    del self._unexplained[next(iter(self._unexplained))]
            case tunnel.Failed(error=error):
                commands += self._open_again(ended.fqdn, error, now)
            case _:
                pass
        return commands

    def _open_again(self, fqdn: str, error: CulvertError, now: float) -> list[Command]:
        """Open a lost tunnel at once: a program that only listens would not cause a demand."""
        if error.reason not in _OPENED_AGAIN or self._stopping:
            return []
        return self._demand(tunnel.Trigger.TUNNEL_LOST, fqdn, now)

    def _end_others(self, fqdn: str, tunnel_id: TunnelId, now: float) -> list[Command]:
        """End other names' machines for this tunnel: a name opened before its resource was known has the same tunnel."""
        others = [
            name for name, held in list_held(self.machines).items() if held == tunnel_id and name != fqdn
        ]
        lost = tunnel.ClosedByController(tunnel_id, CulvertError(Reason.CLOSED_BY_USER))
        return [command for name in others for command in self._to_tunnel(name, lost, now)]

    def _tunnel_lost(self, lost: tunnel.ClosedByController, now: float) -> list[Command]:
        fqdn, error = name_of(self.machines, lost.tunnel_id), lost.error
        was_up = fqdn is not None and self.machines[fqdn].is_up
        carried = self.machines[fqdn].carried if fqdn is not None else None
        if carried is not None and not lost.ends(lost.tunnel_id, carried.pair.generation):
            return []
        if fqdn is not None:
            self._faults.note(fqdn, error, now)
        # Send it to all machines: one that is still opening does not know its tunnel's id yet.
        commands = self._to_tunnels(lost, now)
        if fqdn is not None and was_up:
            commands += self._open_again(fqdn, error, now)
        for name in [name for name, ended in self._unexplained.items() if ended == lost.tunnel_id]:
            del self._unexplained[name]
            if name not in self.machines or isinstance(self.machines[name].state, Closed):
                commands += self._open_again(name, error, now)
        return commands

    def _woke(self, seconds: float, now: float) -> list[Command]:
        """Close tunnels whose idle time has passed in the sleep, and open the others again, whose state is unknown."""
        commands: list[Command] = []
        for fqdn, machine in list(self.machines.items()):
            if (carried := machine.carried) is None or not machine.is_up:
                continue
            idle_at = carried.idle_at()
            if idle_at is not None and idle_at <= now + seconds:
                commands += self._to_tunnel(fqdn, tunnel.CloseRequested(Reason.CLOSED_IDLE), now)
            else:
                commands += self._to_tunnel(fqdn, tunnel.GatewayMoved(carried.tunnel.tunnel_id), now)
        return commands

    def _soft_limit_reached(self, tunnel_id: TunnelId, spi: int, now: float) -> list[Command]:
        fqdn = name_of(self.machines, tunnel_id)
        carried = self.machines[fqdn].carried if fqdn is not None else None
        # Ignore SAs of the old pair, which drain.
        if carried is None or spi not in (carried.pair.inbound.spi, carried.pair.outbound.spi):
            return []
        return self._to_tunnels(tunnel.SoftLimit(tunnel_id, carried.pair.generation), now, fqdn)

    def _controller_lost(self, error: CulvertError, now: float) -> list[Command]:
        self.connected, self.controller_error = False, error
        self._faults.note(CONTROLLER, error, now)
        if error.reason not in SHUT_OUT:
            return []
        return self._all_lost(error, now)

    def _all_lost(self, error: CulvertError, now: float) -> list[Command]:
        lost = [tunnel.ClosedByController(it, error) for it in list_held(self.machines).values()]
        return [command for it in lost for command in self._tunnel_lost(it, now)]

    def _forget(self, now: float) -> list[Command]:
        error = CulvertError(Reason.CLOSED_BY_USER)
        commands = [*self._all_lost(error, now), self._pause(0)]
        # Protected prefixes stay blocked until the new profile arrives.
        old = self.profile
        self.profile = Profile(managed_zones=old.managed_zones, protected_prefixes=old.protected_prefixes)
        self.connected, self.controller_error, self._faults = False, None, Faults()
        for fqdn, machine in self.machines.items():
            # The connection is closed, so their calls get no answer.
            if isinstance(machine.state, Opening):
                commands += self._refuse(fqdn, machine.state.waiting, error, now)
        self.machines.clear()
        # Another person must not read what the former person opened.
        self.clicks = Clicks(self.machines)
        return commands

    def _datapath_answered(self, number: int, error: CulvertError | None, now: float) -> list[Command]:
        if error is None:
            self._faults.cure(DATAPATH)
        else:
            self._faults.note(DATAPATH, error, now)
        answers = self._applies.take_answer(number, error, now)
        return [command for fqdn, event in answers for command in self._to_tunnel(fqdn, event, now)]


def _split(demanders: frozenset[tunnel.Demander]) -> tuple[frozenset[tunnel.QueryId], list[tunnel.RequestId]]:
    queries = frozenset(it for it in demanders if isinstance(it, tunnel.QueryId))
    return queries, sorted(it for it in demanders if isinstance(it, tunnel.RequestId))
