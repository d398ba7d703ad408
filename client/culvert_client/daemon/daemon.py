"""The daemon's loop: it moves bytes and decides nothing.

DNS stub, Watch ──► whose name ──┐
packet trap ──► whose address ───┼──► Organisation ──► what it wants ──► Union ──► the datapath's whole state
SAs, counters ──► whose tunnel ──┘    (one or several)
tray, CLI ──► LocalApi ─────────────────┘
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import grpc.aio
from culvert_proto import CulvertError, Reason, local_pb2_grpc

from culvert_client import config
from culvert_client.config import Endpoint
from culvert_client.controller.agent import CALL_TIMEOUT
from culvert_client.core.activity import Log
from culvert_client.core.claims import LocalNetwork
from culvert_client.core.client_events import (
    AnswerSeen,
    Applied,
    Apply,
    Desired,
    Event,
    Fail,
    Measured,
    NameSeen,
    PacketTrapped,
    QueryHeld,
    Reply,
    SoftLimitReached,
    Stopping,
    Woke,
)
from culvert_client.core.grant import Address, TunnelId
from culvert_client.core.local_networks import Shared, share
from culvert_client.core.profile import Profile
from culvert_client.core.tunnel import events as tunnel
from culvert_client.daemon import router
from culvert_client.daemon.datapath_owner import DatapathUnion, owner_of, shared_id, split_by_organisation
from culvert_client.daemon.local_api import LocalApi
from culvert_client.daemon.local_servicer import LocalServicer
from culvert_client.daemon.organisation import STOP_PATIENCE, Organisation
from culvert_client.datapath import Datapath
from culvert_client.enrolments import Enrolments
from culvert_client.local.front import LIMITS, Front
from culvert_client.moves import Sleep, follow
from culvert_client.name_service import NameService
from culvert_client.nat64_reach import Nat64Reach
from culvert_client.state_dir import StateDir
from culvert_client.stub.listener import Listener
from culvert_client.stub.resolver import Resolver
from culvert_client.stub.upstream import Upstream
from culvert_client.system_dns import SystemDns, resolved
from culvert_client.tasks import Tasks
from culvert_client.uplinks import local_networks
from culvert_client.watch.sniffer import Sniffer

log = logging.getLogger("culvertd")

# Our tunables, in seconds.
MEASURE_EVERY = 0.5
# Where no packet passes; an idle tunnel is looked at more closely before it would be closed.
MEASURE_IDLE_EVERY = 2.0
LOOK_AGAIN = 5.0


def until_measured(rest: float, passed: bool, due_in: float) -> float:
    """How long not to look at the counters: after `rest`, in which packets passed or none did, with a deadline ahead."""
    return max(MEASURE_EVERY, 0.0 if passed else min(2 * rest, MEASURE_IDLE_EVERY, due_in / 2))


class Daemon:
    """The organisations' Host. Raises nothing once it runs: faults are part of the status."""

    def __init__(
        self,
        settings: config.Config,
        enrolments: Enrolments,
        path: Datapath,
        system_dns: SystemDns | None = None,
        front: Front | None = None,
    ) -> None:
        self.settings, self._datapath, self._enrolments = settings, path, enrolments
        self.nat64 = Nat64Reach(lambda query: self.upstream.exchange(query))
        self.upstream = Upstream(*filter(None, [settings.dns_upstream]), reach=self.nat64.reach)
        self.log = Log()
        self.resolver = Resolver(
            self.upstream,
            self._profile,
            self._profile_beside,
            self._is_open,
            self._post_dns,
            lambda: self.nat64.translator,
            lambda label: router.find_full_name(self.profiles(), label),
            self._addresses_of,
        )
        watches = settings.dns_mode is config.DnsMode.WATCH
        use = None if settings.dns_upstream else self._use
        source = Sniffer(self._post_dns, use) if watches else Listener(self.resolver, self)
        self._names = NameService(
            settings, source, system_dns, lambda: self._profile().managed_zones, self._use, self.changed
        )
        self._front = front or Front(settings.socket)
        self._grpc = grpc.aio.server(options=LIMITS)
        self._tasks = Tasks()
        self._wishes: asyncio.Queue[tuple[Organisation, Apply]] = asyncio.Queue()
        self._applying = asyncio.Lock()
        self._look, self._behind = asyncio.Event(), False
        self._changed = asyncio.Event()
        self._sleep = Sleep()
        self.organisations = {
            number: Organisation(number, state, self) for number, state in enrolments.all().items()
        }
        # What any of them protects stays blocked while the first of them begins.
        self._union = DatapathUnion(
            {number: Desired(frozenset(it.protected_prefixes)) for number, it in self.profiles().items()}
        )
        self._networks: frozenset[LocalNetwork] = frozenset()
        self._shared = Shared()
        self._local_api = LocalApi(self, enrolments)
        self.blocked_by: CulvertError | None = None

    async def run(self, stopped: asyncio.Event) -> None:
        """Until `stopped` is set. Raises OSError when the local socket is taken."""
        self._front.claim()
        self._datapath.on_soft_limit(self._post_soft_limit)
        self._datapath.on_trapped(self._trapped)
        self._datapath.on_lost(self._lost)
        self._tasks.start(self._apply_forever())
        for organisation in self._all():
            organisation.start()
        # What is protected is blocked before anything can be asked.
        await self._wishes.join()
        servicer = LocalServicer(self._local_api, self._front.uid_of, self)
        local_pb2_grpc.add_LocalServiceServicer_to_server(servicer, self._grpc)
        self._grpc.add_insecure_port(self._front.grpc_address)
        try:
            await self._names.listen()
            await self._grpc.start()
            await self._front.open(self)
            await self._names.start()
            self._tasks.start(self._look_around_forever())
            self._tasks.start(self._measure_forever())
            self._tasks.start(self._wait_for_state())
            for organisation in self._all():
                organisation.measure_round_trips()
            self._tasks.start(follow(self._moved, self._reconnect, changed_here=self._changed_here))
            await self._look_at_networks()
            # What was imported stays for ever: looking through all of it again would fall into the first click.
            gc.collect()
            gc.freeze()
            log.info("ready")
            await stopped.wait()
            log.info("stopping")
            self._post_to_all(Stopping())
            await self.until(lambda: all(it.client.is_quiet for it in self._all()), STOP_PATIENCE)
        finally:
            await self._close()

    async def _close(self) -> None:
        await self._names.close()
        self.resolver.close()
        await self._front.close()
        await self._grpc.stop(grace=0.2)
        await asyncio.gather(*(organisation.close() for organisation in self._all()))
        await self._tasks.cancel()

    # ── whose it is ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _all(self) -> list[Organisation]:
        return list(self.organisations.values())

    def others(self, organisation: Organisation) -> Sequence[Organisation]:
        return [it for it in self._all() if it is not organisation]

    def owners(self) -> Collection[int]:
        """The uids for core/places.py."""
        return {it.owner for it in self._all() if it.owner is not None}

    def profiles(self) -> dict[int, Profile]:
        return {number: it.client.profile for number, it in self.organisations.items()}

    def _profile(self) -> Profile:
        return router.merge_profiles(it.client.profile for it in self._all())

    def _profile_beside(self, fqdn: str) -> Profile:
        profiles = self.profiles()
        profiles.pop(router.find_by_name(profiles, fqdn) or 0, None)
        return router.merge_profiles(profiles.values())

    def _addresses_of(self, fqdn: str) -> Collection[Address]:
        profiles = self.profiles()
        number = router.find_by_name(profiles, fqdn)
        return profiles[number].addresses_of(fqdn) if number is not None else ()

    def _is_open(self, fqdn: str) -> bool:
        self.see_awake()
        of = self.organisations.get(router.find_by_name(self.profiles(), fqdn) or 0)
        return of is not None and of.client.is_open(fqdn)

    def _post_to(self, number: int | None, event: Event) -> None:
        """What is nobody's, or was theirs who have left, is nothing."""
        if (organisation := self.organisations.get(number or 0)) is not None:
            organisation.post(event)

    def _post_to_all(self, event: Event) -> None:
        for organisation in self._all():
            organisation.post(event)

    def _post_dns(self, event: Event) -> None:
        match event:
            case QueryHeld(fqdn=fqdn) | NameSeen(fqdn) | AnswerSeen(fqdn):
                self._post_to(router.find_by_name(self.profiles(), fqdn), event)
            case _:
                # The answer to a query: whoever holds it knows.
                self._post_to_all(event)

    def _trapped(self, event: PacketTrapped) -> None:
        self._post_to(router.find_by_address(self.profiles(), event.address), event)

    def _post_soft_limit(self, event: SoftLimitReached) -> None:
        number, tunnel_id = owner_of(event.tunnel_id)
        self._post_to(number, SoftLimitReached(tunnel_id, event.spi))

    # ── what they share ─────────────────────────────────────────────────────────────────────────────────────────────────

    def settle_query(self, settled: Reply | Fail) -> None:
        self.resolver.settle(settled)

    def wish(self, organisation: Organisation, apply: Apply) -> None:
        self._wishes.put_nowait((organisation, apply))

    def add(self, number: int, state: StateDir) -> Organisation:
        """One that this computer is enrolled with from now on."""
        self.organisations[number] = added = Organisation(number, state, self)
        added.start()
        added.measure_round_trips()
        return added

    async def _wait_for_state(self) -> None:
        """Until the state directory can be used; then what it holds takes the place of what could be read of it."""
        if self._enrolments.fault is None:
            return
        await asyncio.sleep(LOOK_AGAIN)
        while self._enrolments.try_again() is not None:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(LOOK_AGAIN)
        log.info("the state directory can be used now")
        there, before = self._enrolments.all(), self._all()
        kept = {
            it.number
            for it in before
            if it.owner is not None and it.number in there and it.path == there[it.number].path
        }
        replaced = [it for it in before if it.number not in kept]
        for organisation in replaced:
            await organisation.retire()
        for number in there.keys() - kept:
            self.add(number, there[number])
        # What the former ones blocked is blocked until the new ones block theirs.
        await self._wishes.join()
        for organisation in replaced:
            if self._is_here(organisation):
                self.forget(organisation)
        self.changed()

    def forget(self, organisation: Organisation) -> None:
        """It has left: nothing of it stays in the datapath."""
        del self.organisations[organisation.number]
        self._union = self._union.without(organisation.number)
        self._behind = True
        self._look.set()
        self.changed()

    def changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def next_change(self) -> asyncio.Event:
        return self._changed

    async def until(self, condition: Callable[[], bool], patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            pass

    async def _apply_forever(self) -> None:
        while True:
            organisation, wish = await self._wishes.get()
            if self._is_here(organisation):
                async with self._applying:
                    error = await self._apply_wish(organisation, wish)
                # It may have left meanwhile.
                if self._is_here(organisation):
                    try:
                        organisation.post(Applied(wish.number, error))
                    except Exception:
                        # The others' wishes are to be granted all the same.
                        log.exception("%s failed", organisation.name)
            self._wishes.task_done()

    async def _apply_wish(self, organisation: Organisation, wish: Apply) -> CulvertError | None:
        number, before = organisation.number, self._union
        union = before.with_desired(number, wish.desired)
        error = await self._apply(union)
        if error is None:
            # Another one may have left meanwhile, or this one.
            if self._is_here(organisation):
                self._union = self._union.with_desired(number, wish.desired)
        elif before.without(number).parts:
            # What one wants and cannot have must take nothing from the others.
            await self._apply(before)
        return error

    def _is_here(self, organisation: Organisation) -> bool:
        return self.organisations.get(organisation.number) is organisation

    async def _apply(self, union: DatapathUnion) -> CulvertError | None:
        try:
            shared = self._share(union)
            await self._datapath.apply(self.nat64.over(shared.desired))
        except CulvertError as error:
            self._refused(error)
            return error
        except Exception:
            # The waiting callers need an error, and the loop must go on to the next state.
            log.exception("the datapath failed")
            return CulvertError(Reason.INTERNAL)
        self._tell_of_networks(shared)
        if self.blocked_by is not None:
            log.info("tunnels can be opened now")
            self.blocked_by = None
            self.changed()
        return None

    def _refused(self, error: CulvertError) -> None:
        # The same obstacle again, some seconds later, is no news.
        if self.blocked_by is None or str(self.blocked_by) != str(error):
            log.error("%s", error)
        self.blocked_by = None if self._datapath.name else error
        self.changed()

    @property
    def datapath(self) -> str:
        """The name of the one in use; empty while none is."""
        return self._datapath.name

    def _lost(self, error: CulvertError) -> None:
        for it in self._all():
            for tunnel_id in it.client.tunnels_up():
                it.post(tunnel.ClosedByController(tunnel_id, error))
        self._tasks.start(self._apply_anew())

    async def _apply_anew(self) -> None:
        async with self._applying:
            if await self._apply(self._union) is not None:
                self._behind = True
                self._look.set()

    def _share(self, union: DatapathUnion) -> Shared:
        resources = (it for profile in self.profiles().values() for it in profile.resources)
        return share(union.whole, (prefix for it in resources for prefix in it.prefixes), self._networks)

    def _tell_of_networks(self, shared: Shared) -> None:
        before, self._shared = self._shared, shared
        for text in shared.texts:
            if text not in before.texts:
                log.warning("%s", text)
        if before.texts != shared.texts:
            self.changed()

    @property
    def warnings(self) -> Sequence[CulvertError]:
        """What is the matter with this computer's networks and the organisations' files."""
        files = (warning for it in self._all() for warning in it.client.file_warnings.values())
        unprotected = (it.warning for profile in self.profiles().values() for it in profile.collisions)
        return (*unprotected, *self._shared.warnings, *files)

    @property
    def warnings_for_all(self) -> Sequence[CulvertError]:
        """What is the matter with this computer's name service and its state directory: each user of it is concerned."""
        return (*self._names.warnings, *filter(None, [self._enrolments.fault]))

    async def _changed_here(self) -> None:
        await self._look_at_networks()
        await self._datapath.repair()

    async def _look_at_networks(self) -> None:
        """Lets this computer's own networks stay reachable where that leaks nothing. Until then they are blocked."""
        self._networks = await asyncio.to_thread(local_networks, {self.settings.tun_name, resolved.LINK})
        await self._share_anew()

    async def _share_anew(self) -> None:
        async with self._applying:
            # The kernel removes a route with its device, so those that are there may have to be made again.
            anew = self._shared.desired.on_link or not self._share(self._union).is_as(self._shared)
            if anew and await self._apply(self._union) is not None:
                self._behind = True
                self._look.set()

    async def _measure_forever(self) -> None:
        rest, known = MEASURE_EVERY, Measured({}, {}, {})
        while True:
            await asyncio.sleep(rest)
            if not any(machine.is_up for it in self._all() for machine in it.client.machines.values()):
                rest = MEASURE_EVERY
                continue
            measured = await self.measure()
            if measured is None:
                continue
            deadlines = [at for it in self._all() if (at := it.client.deadline()) is not None]
            due_in = min(deadlines, default=math.inf) - asyncio.get_running_loop().time()
            rest, known = until_measured(rest, measured != known, due_in), measured

    async def measure(self) -> Measured | None:
        """Lets the organisations know what their tunnels have carried. None when the datapath does not say."""
        try:
            measured = await self._datapath.measure()
        except CulvertError as error:
            log.error("%s", error)
            return None
        for number, part in split_by_organisation(measured).items():
            self._post_to(number, part)
        return measured

    async def probe(self, organisation: Organisation, targets: Mapping[TunnelId, Address]) -> None:
        """As the datapath's."""
        try:
            await self._datapath.probe({shared_id(organisation.number, it): to for it, to in targets.items()})
        except CulvertError as error:
            log.error("%s", error)

    async def _look_around_forever(self) -> None:
        while True:
            if await self.nat64.look():
                self._behind = True
                self._reconnect()
                self._measure_anew()
            if self._behind:
                async with self._applying:
                    self._behind = await self._apply(self._union) is not None
                with suppress(CulvertError):
                    await self._datapath.moved()
            cut_off = self.nat64.is_without_ipv4 and self.nat64.translator is None
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN if self._behind or cut_off else None):
                    await self._look.wait()
            self._look.clear()

    def _use(self, servers: tuple[Endpoint, ...]) -> None:
        """The network's name servers are these: only they know its NAT64."""
        if self.upstream.use(servers):
            self._look.set()

    def claims_changed(self, organisation: Organisation) -> None:
        """What was refused because of this one may be good now, and its resources may lie in this computer's networks."""
        self._tasks.start(self._share_anew())
        for other in self.others(organisation):
            agent, error = other.connection.agent, other.client.controller_error
            if agent is not None and error is not None and error.reason is Reason.ORGANISATIONS_COLLIDE:
                agent.reconnect()

    async def _moved(self) -> None:
        self.upstream.moved()
        self._look.set()
        self._measure_anew()
        await self._datapath.moved()

    def _measure_anew(self) -> None:
        for organisation in self._all():
            organisation.moved()

    def _reconnect(self) -> None:
        slept = self._sleep.take()
        for organisation in self._all():
            if (agent := organisation.connection.agent) is not None:
                # The clock of a call's timeout stood still in the sleep, and the connection may be long dead.
                agent.reconnect(0.0 if slept else CALL_TIMEOUT)
        # Its calls need the new connections.
        if slept:
            self._post_to_all(Woke(slept))

    def see_awake(self) -> None:
        """Call this before an answer that rests on an open tunnel: the tunnel may have been lost in a sleep."""
        if self._sleep.is_news:
            self._reconnect()
