"""The daemon: its parts, started forwards and stopped backwards. It moves bytes and decides nothing.

DNS stub, Watch ──┐                                ┌─ Apply ─► DatapathOwner ─► the datapath's whole state
packet trap ──────┼─► Router ─► Organisation ──────┤
SAs, counters ────┘                 ▲              └─ Reply, Fail ─► Resolver
tray, CLI ─► LocalApi ──────────────┘
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Sequence

import grpc.aio
from culvert_proto import CulvertError, local_pb2_grpc

from culvert_client import config
from culvert_client.config import Endpoint
from culvert_client.core.activity import Log
from culvert_client.core.client_events import Stopping
from culvert_client.daemon.datapath_owner import LOOK_AGAIN, DatapathOwner
from culvert_client.daemon.local_api import LocalApi
from culvert_client.daemon.local_servicer import LocalServicer
from culvert_client.daemon.organisation import Organisation, SharedParts
from culvert_client.daemon.requests import STOP_PATIENCE
from culvert_client.daemon.router import Router
from culvert_client.denial_page import DenialPage
from culvert_client.enrolments import Enrolments
from culvert_client.local.front import LIMITS, Front
from culvert_client.moves import follow
from culvert_client.name_service import NameService
from culvert_client.nat64_reach import Nat64Reach
from culvert_client.platform.interfaces import DaemonPlatform, QuerySource, SystemDns
from culvert_client.reopening import Datapath
from culvert_client.state_dir import StateDir
from culvert_client.stub.listener import Listener
from culvert_client.stub.resolver import Resolver
from culvert_client.stub.upstream import Upstream
from culvert_client.tasks import Changes, Tasks

log = logging.getLogger("culvertd")


class Daemon:
    """Creates, starts and stops the parts. Raises nothing while it runs: faults are part of the status."""

    def __init__(
        self,
        settings: config.Config,
        enrolments: Enrolments,
        datapath: Datapath,
        platform: DaemonPlatform,
        system_dns: SystemDns | None = None,
        front: Front | None = None,
    ) -> None:
        self._enrolments = enrolments
        self.router, self._platform = Router(platform.process.slept), platform
        changes, nat64 = Changes(), Nat64Reach(lambda query: self.upstream.exchange(query))
        self.upstream = Upstream(*filter(None, [settings.dns_upstream]), reach=nat64.reach)
        own_devices = {settings.tun_name, *platform.name_services.own_devices()}
        self.datapath = DatapathOwner(datapath, nat64, self.router, changes, platform.networks, own_devices)
        self._page = DenialPage(self.router, platform.senders, settings.denial_page)
        resolver = Resolver(self.upstream, self.router, nat64, self._page)
        self.shared = SharedParts(
            settings, nat64, self.upstream, resolver, self.datapath, self.router, changes, Log(), platform
        )
        source: QuerySource = Listener(resolver, self.router, platform.senders)
        if settings.dns_mode is config.DnsMode.WATCH:
            use = None if settings.dns_upstream else self._use
            source = platform.dns_sniffers.sniffer(self.router.post_dns, use)
        self._names = NameService(
            settings,
            source,
            system_dns,
            platform.ports,
            lambda: self.router.profile().managed_zones,
            self._use,
            changes.tell,
        )
        self._front = front or Front(settings.socket, platform.callers)
        self._grpc = grpc.aio.server(options=LIMITS)
        self._tasks = Tasks()
        for number, state in enrolments.all().items():
            self.organisations[number] = Organisation(number, state, self.shared)

    @property
    def organisations(self) -> dict[int, Organisation]:
        return self.router.organisations

    async def run(self, stopped: asyncio.Event) -> bool:
        """Run until `stopped` is set. Whether names are as before. Raises OSError if the local socket is taken."""
        self._front.claim()
        self.datapath.start()
        for organisation in self.router.all():
            organisation.start()
        # Block protected prefixes before the first query or call is accepted.
        await self.datapath.wait_handled()
        servicer = LocalServicer(LocalApi(self, self._enrolments), self._front.uid_of, self.router)
        local_pb2_grpc.add_LocalServiceServicer_to_server(servicer, self._grpc)
        self._grpc.add_insecure_port(self._front.grpc_address)
        try:
            await self._names.listen()
            await self._grpc.start()
            await self._front.open(self.router)
            await self._names.start()
            self.datapath.keep_up()
            self._tasks.start(self._wait_for_state())
            if self.shared.settings.dns_mode is config.DnsMode.STUB:
                self._tasks.start(self._page.keep(self.shared.changes))
            for organisation in self.router.all():
                organisation.measure_round_trips()
            self._tasks.start(
                follow(
                    self._platform.networks,
                    self._platform.process.slept,
                    self._on_roam,
                    self.router.reconnect,
                    self.datapath.note_change,
                )
            )
            await self.datapath.look_at_networks()
            # Exclude imported objects, which stay for ever, from collections: they would delay the first click.
            gc.collect()
            gc.freeze()
            log.info("ready")
            self._platform.process.tell_ready()
            await stopped.wait()
            log.info("stopping")
            self.router.post_to_all(Stopping())
            await self.shared.changes.until(
                lambda: all(it.client.is_quiet for it in self.router.all()), STOP_PATIENCE
            )
        finally:
            await self._close()
        return self._names.is_restored

    async def _close(self) -> None:
        await self._names.close()
        self.shared.resolver.close()
        await self._front.close()
        await self._grpc.stop(grace=0.2)
        await asyncio.gather(*(organisation.close() for organisation in self.router.all()))
        await self.datapath.close()
        await self._tasks.cancel()
        await self._page.close()

    def add(self, number: int, state: StateDir) -> Organisation:
        """Add and start a newly enrolled organisation."""
        self.organisations[number] = added = Organisation(number, state, self.shared)
        added.start()
        added.measure_round_trips()
        return added

    def forget(self, organisation: Organisation) -> None:
        """Remove an organisation that was left, also from the datapath."""
        del self.organisations[organisation.number]
        self.datapath.forget(organisation.number)
        self.shared.changes.tell()

    async def _wait_for_state(self) -> None:
        """Wait until the state directory is usable, then replace the organisations by those stored in it."""
        if self._enrolments.fault is None:
            return
        await asyncio.sleep(LOOK_AGAIN)
        while self._enrolments.try_again() is not None:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(LOOK_AGAIN)
        log.info("the state directory can be used now")
        there, before = self._enrolments.all(), self.router.all()
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
        # Keep the former organisations' prefixes blocked until the new ones have blocked theirs.
        await self.datapath.wait_handled()
        for organisation in replaced:
            if self.router.has(organisation):
                self.forget(organisation)
        self.shared.changes.tell()

    @property
    def warnings(self) -> Sequence[CulvertError]:
        """Warnings about this computer's networks and the organisations' files."""
        files = (warning for it in self.router.all() for warning in it.client.file_warnings.values())
        unprotected = (it.warning for profile in self.router.profiles().values() for it in profile.collisions)
        return (*unprotected, *self.datapath.warnings, *files)

    @property
    def warnings_for_all(self) -> Sequence[CulvertError]:
        """Warnings about the name service and the state directory, which concern each user of this computer."""
        return (*self._names.warnings, *filter(None, [self._enrolments.fault]))

    def _use(self, servers: tuple[Endpoint, ...]) -> None:
        """Use the network's name servers, and look for a NAT64 again, which only they know."""
        if self.upstream.use(servers):
            self.datapath.look_again()

    async def _on_roam(self) -> None:
        self.upstream.on_roam()
        self.datapath.look_again()
        self.router.on_roam()
        await self.datapath.on_roam()
