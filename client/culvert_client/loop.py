"""The daemon's loop: it moves bytes and decides nothing.

DNS stub ──┐                                ┌──► answers released or refused
Watch    ──┤ event                  command ├──► calls to the controller
calls    ──┼───────► core.Client ───────────┼──► the datapath's whole state
counters ──┤         (pure)                 ├──► files
tray, CLI ─┘                                └──► replies to tray and CLI
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from importlib.metadata import version
from typing import Any

import grpc.aio
from culvert_proto import CulvertError, Reason, local_pb2, local_pb2_grpc

from culvert_client import config
from culvert_client.controller.calls import perform
from culvert_client.controller.connection import Connection
from culvert_client.controller.enrolment import enrol
from culvert_client.controller.messages import kept_profile
from culvert_client.core import tunnel_events as tunnel
from culvert_client.core.activity import Activity, Entry
from culvert_client.core.client import Client
from culvert_client.core.client_events import (
    Applied,
    Apply,
    AskTxt,
    Call,
    CallEnded,
    CloseAsked,
    CodeProven,
    Command,
    Event,
    Fail,
    KeepGateway,
    KeepPause,
    KeepTunnels,
    PauseEnded,
    Reply,
    Settle,
    Stopping,
    Ticked,
    TxtAnswered,
)  # fmt: skip
from culvert_client.core.code import check_code
from culvert_client.core.invitation import parse_invitation
from culvert_client.core.roles import Act, may
from culvert_client.core.status import status_of
from culvert_client.datapath import Datapath
from culvert_client.enrolments import Enrolments
from culvert_client.examination import examine
from culvert_client.latency import Latencies
from culvert_client.local.front import LIMITS, Front
from culvert_client.local.requests import Requests
from culvert_client.local.servicer import LocalServicer
from culvert_client.moves import follow
from culvert_client.stub.listener import Listener
from culvert_client.stub.resolver import Resolver
from culvert_client.stub.upstream import Upstream
from culvert_client.system_dns import SystemDns
from culvert_client.watch.sniffer import Sniffer

log = logging.getLogger("culvertd")
VERSION = version("culvert-client")

# Our tunables, in seconds.
MEASURE_EVERY = 0.5
PUSH_EVERY = 0.2
LOOK_AGAIN = 5.0
STOP_PATIENCE = 3.0


class Daemon:
    """Raises nothing once it runs: faults are part of the status."""

    def __init__(
        self,
        settings: config.Config,
        enrolments: Enrolments,
        path: Datapath,
        system_dns: SystemDns | None = None,
    ) -> None:
        self._settings, self._datapath = settings, path
        self._state = state = next(iter(enrolments.all().values()))
        identity = state.identity()
        self._client = Client(
            kept_profile(state.profile()),
            state.gateway(),
            state.tunnels() if identity else {},
            state.paused_until(),
        )
        self._activity, self._latencies = Activity(), Latencies()
        self._upstream, self._system_dns = Upstream(*filter(None, [settings.dns_upstream])), system_dns
        self._resolver = Resolver(self._upstream, lambda: self._client.profile, self.post)
        watches = settings.dns_mode is config.DnsMode.WATCH
        use = None if settings.dns_upstream else self._upstream.use
        self._listener = Sniffer(self.post, use) if watches else Listener(self._resolver.resolve)
        self._front = Front(settings.socket)
        self._grpc = grpc.aio.server(options=LIMITS)
        self._connection = Connection(state, identity, self._client, self.post, self._spawn, VERSION)
        self._tasks: set[asyncio.Task[None]] = set()
        self._applies: asyncio.Queue[Apply] = asyncio.Queue()
        self.requests = Requests(
            self._client, self.post, lambda so: self._until(so, STOP_PATIENCE), self._connection.check
        )
        self._pause: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._enrolling = asyncio.Lock()
        self._epoch = time.time() - self._now()

    async def run(self, stopped: asyncio.Event) -> None:
        """Until `stopped` is set. Raises OSError when a port or a socket is taken."""
        self._front.claim()
        self._connection.open()
        self._datapath.on_soft_limit(self.post)
        self._datapath.on_trapped(self.post)
        self._spawn(self._apply_forever())
        self._end_pause_at(self._client.paused_until)
        self.post(Ticked())
        # What is protected is blocked before anything can be asked.
        await self._applies.join()
        local_pb2_grpc.add_LocalServiceServicer_to_server(LocalServicer(self, self._front.uid_of), self._grpc)
        self._grpc.add_insecure_port(self._front.grpc_address)
        try:
            await self._listener.open(self._settings.dns_listen)
            await self._grpc.start()
            await self._front.open()
            if self._system_dns is not None:
                await self._system_dns.start(lambda: self._client.profile.managed_zones, self._upstream.use)
            self._spawn(self._measure_forever())
            self._spawn(self._latencies.keep(lambda: self._client.profile.gateways))
            self._spawn(follow(self._moved, lambda: self._connection.agent))
            # What was imported stays for ever: looking through all of it again would fall into the first click.
            gc.collect()
            gc.freeze()
            log.info("ready")
            await stopped.wait()
            log.info("stopping")
            self.post(Stopping())
            await self._until(lambda: self._client.is_quiet, STOP_PATIENCE)
        finally:
            await self._close()

    async def _close(self) -> None:
        if self._system_dns is not None:
            await self._system_dns.stop()
        await self._listener.close()
        await self._front.close()
        await self._grpc.stop(grace=0.2)
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connection.close()

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def post(self, event: Event) -> None:
        commands = self._client.handle(event, self._now())
        self._activity.observe(self._client, event, commands, time.time())
        for command in commands:
            self._execute(command)
        if self._timer is not None:
            self._timer.cancel()
        deadline = self._client.deadline()
        loop = asyncio.get_running_loop()
        self._timer = None if deadline is None else loop.call_at(deadline, lambda: self.post(Ticked()))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _execute(self, command: Command) -> None:
        match command:
            case AskTxt(fqdn):
                self._spawn(self._ask_txt(fqdn))
            case Reply(query):
                self._resolver.settle(query, None)
            case Fail(query, _, error):
                log.info("refused: %s", error)
                self._resolver.settle(query, error)
            case Call():
                self._spawn(self._call(command))
            case Apply():
                self._applies.put_nowait(command)
            case Settle():
                self.requests.settle(command)
            case KeepTunnels(tunnels):
                self._keep(lambda: self._state.keep_tunnels(tunnels))
            case KeepGateway(gateway):
                self._keep(lambda: self._state.keep_gateway(gateway))
            case KeepPause(until):
                self._keep(lambda: self._state.keep_pause(until))
                self._end_pause_at(until)

    def _keep(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            # A full disk must not stop a tunnel.
            log.error("the state directory cannot be written: %s", error)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a task failed", exc_info=fault)

    async def _until(self, condition: Callable[[], bool], patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            pass

    # ── datapath and name server ────────────────────────────────────────────────────────────────────────────────────────

    async def _apply_forever(self) -> None:
        while True:
            command = await self._applies.get()
            try:
                await self._datapath.apply(command.desired)
                self.post(Applied(command.number))
            except CulvertError as error:
                log.error("%s", error)
                self.post(Applied(command.number, error))
            except Exception:
                # Whoever waits for this must hear of it, and the next one must be tried.
                log.exception("the datapath failed")
                self.post(Applied(command.number, CulvertError(Reason.INTERNAL)))
            finally:
                self._applies.task_done()

    async def _measure_forever(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_EVERY)
            if any(machine.is_up for machine in self._client.machines.values()):
                try:
                    self.post(await self._datapath.measure())
                except CulvertError as error:
                    log.error("%s", error)

    def _end_pause_at(self, until: int) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._pause = self._spawn(self._end_pause(until)) if until else None

    async def _end_pause(self, until: int) -> None:
        # The loop's clock stops while the computer sleeps; the person's goes on.
        while (left := until - time.time()) > 0:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(min(left, LOOK_AGAIN))
        self._pause = None
        self.post(PauseEnded())

    async def _ask_txt(self, fqdn: str) -> None:
        self.post(TxtAnswered(fqdn, bool(await self._upstream.says_tunnel(fqdn))))

    async def _moved(self) -> None:
        self._latencies.measure_anew()
        await self._datapath.moved()

    # ── controller ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _call(self, call: Call) -> None:
        agent = self._connection.agent
        if agent is None:
            failed = tunnel.Failed(call.command.call, CulvertError(Reason.NOT_ENROLLED))
            self.post(CallEnded(call.fqdn, failed))
        else:
            self.post(
                await perform(
                    agent,
                    call,
                    udp_port=self._settings.udp_port,
                    legacy_suites=self._settings.legacy_suites,
                    distances=self._latencies.distances(self._client.gateways_in_use()),
                    asked_at=self._now(),
                )
            )

    # ── what the local API asks ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def owner(self) -> int | None:
        identity = self._connection.identity
        return identity.owner if identity is not None else None

    def status(self) -> local_pb2.Status:
        identity = self._connection.identity
        return status_of(
            self._client,
            controller=identity.controller if identity is not None else None,
            epoch=self._epoch,
            now=self._now(),
            version=VERSION,
            datapath=self._datapath.name,
            round_trips=self._latencies.known,
        )

    async def statuses(self) -> AsyncIterator[local_pb2.Status]:
        """The status now, then after each change, at most 5 a second."""
        shown: local_pb2.Status | None = None
        while True:
            changed, status = self._changed, self.status()
            if status != shown:
                shown = status
                yield status
                await asyncio.sleep(PUSH_EVERY)
            try:
                # A code ends without an event.
                async with asyncio.timeout(LOOK_AGAIN):
                    await changed.wait()
            except TimeoutError:
                continue

    async def activities(self, follow: bool) -> AsyncIterator[Entry]:
        """What is kept; then, if `follow`, what happens. Who reads too slowly misses the oldest."""
        seen = 0
        while True:
            changed = self._changed
            for entry in self._activity.after(seen):
                seen = entry.number
                yield entry
            if not follow:
                return
            await changed.wait()

    async def enroll(self, link: str, device_name: str, uid: int) -> local_pb2.EnrollResponse:
        async with self._enrolling:
            # Somebody else may have enrolled while this call waited.
            if not may(uid, Act.ENROLL, self.owner):
                raise CulvertError(Reason.LOCAL_PERMISSION, what=Act.ENROLL.value)
            invitation = parse_invitation(link)
            enrolment = await enrol(invitation, device_name=device_name or socket.gethostname(), owner=uid)
            self.post(CloseAsked(None))
            await self._until(lambda: self._client.is_quiet, STOP_PATIENCE)
            await self._connection.take(enrolment.identity)
            log.info("enrolled with %s as %s", enrolment.identity.controller, enrolment.identity.user)
            return enrolment.response()

    async def submit_code(self, code: str) -> local_pb2.SubmitCodeResponse:
        agent, _ = self._connection.check()
        check_code(code)
        proof = await agent.prove_code(code)
        self.post(CodeProven(proof.code_valid_until))
        left = proof.recovery_codes_left if proof.HasField("recovery_codes_left") else None
        return local_pb2.SubmitCodeResponse(code_valid_until=proof.code_valid_until, recovery_codes_left=left)

    async def examine(self) -> local_pb2.ExamineResponse:
        _, identity = self._connection.check()
        up = [it.carried.tunnel for it in self._client.machines.values() if it.is_up and it.carried]
        watches = self._settings.dns_mode is config.DnsMode.WATCH
        return await examine(identity, self._client.profile, up, self._upstream, watches=watches)
