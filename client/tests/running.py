"""A daemon in this process, with every socket real and no packets: the datapath only remembers what it was told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dns.asyncquery
import dns.exception
import dns.message
import grpc.aio
from culvert_client.config import Config, DnsMode, Endpoint
from culvert_client.core.client_events import Desired, Measured, PacketTrapped, SoftLimitReached
from culvert_client.core.grant import Address, TunnelId
from culvert_client.daemon.daemon import Daemon
from culvert_client.enrolments import Enrolments
from culvert_client.platform import daemon_platform
from culvert_client.platform.interfaces import SystemDns
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason, local_pb2, local_pb2_grpc

PLATFORM = daemon_platform()


@dataclass
class RememberingDatapath:
    name = "none"
    applied: list[Desired] = field(default_factory=list[Desired])
    error: CulvertError | None = None
    moves: int = 0
    refuses: Callable[[Desired], bool] = lambda _: False
    _last: Desired | None = None

    def on_soft_limit(self, notify: Callable[[SoftLimitReached], None]) -> None:
        self.notify_soft_limit = notify

    def on_lost(self, notify: Callable[[CulvertError], None]) -> None:
        self.lost = notify

    def on_trapped(self, notify: Callable[[PacketTrapped], None]) -> None:
        self.trapped = notify

    async def apply(self, desired: Desired) -> None:
        if self.error is not None:
            raise self.error
        self._remember(desired)
        if self.refuses(desired):
            # A real one may have done half of it.
            raise CulvertError(Reason.DATAPATH_FAILED, why="refused")

    def _remember(self, desired: Desired) -> None:
        """Without the lengths of packets, and not when these alone have changed: the search for them ends at any time."""
        tunnels = tuple(replace(it, tunnel=replace(it.tunnel, mtu=0)) for it in desired.tunnels)
        remembered = replace(desired, tunnels=tunnels)
        if desired == self._last or not self.applied or remembered != self.applied[-1]:
            self.applied.append(remembered)
        self._last = desired

    async def repair(self) -> None:
        pass

    async def on_roam(self) -> None:
        self.moves += 1

    async def probe(self, targets: Mapping[TunnelId, Address]) -> None:
        pass

    async def measure(self) -> Measured:
        return Measured({}, {}, {})

    async def close(self, *, unblock: bool = True) -> None:
        self.applied.append(Desired())


@dataclass
class Running:
    daemon: Daemon
    settings: Config
    datapath: RememberingDatapath
    local: local_pb2_grpc.LocalServiceAsyncStub

    async def ask(self, name: str, kind: str = "A", *, tcp: bool = False) -> dns.message.Message:
        """As the system's resolver would: a lost datagram is sent again."""
        query = dns.message.make_query(name, kind, use_edns=0, payload=1232)
        send = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        listen = self.settings.dns_listen
        for patience in (3, 5):
            with contextlib.suppress(dns.exception.Timeout):
                return await send(query, listen.host, timeout=patience, port=listen.port)
        raise AssertionError(f"no answer for {name}")

    async def status(self) -> local_pb2.Status:
        return (await self.local.GetStatus(local_pb2.GetStatusRequest())).status

    async def until(self, condition: Callable[[local_pb2.Status], bool]) -> local_pb2.Status:
        """The first pushed status that meets the condition."""
        async with asyncio.timeout(30):
            async for pushed in self.local.WatchStatus(local_pb2.WatchStatusRequest()):
                if condition(pushed.status):
                    return pushed.status
        raise AssertionError("the stream ended")


FIRST = Path("organisations/1")
"""The first organisation's folder in the state directory."""


@contextlib.asynccontextmanager
async def running(
    directory: Path,
    upstream: Endpoint,
    dns_mode: DnsMode = DnsMode.STUB,
    system_dns: SystemDns | None = None,
    **others: Any,
) -> AsyncGenerator[Running]:
    """`others` are further settings. Stops the daemon as SIGTERM does when the block ends."""
    others.setdefault("dns_listen", Endpoint("127.0.0.1", free_port()))
    others.setdefault("denial_page", Endpoint("127.0.0.1", free_port()))
    settings = Config(
        dns_upstream=upstream,
        dns_mode=dns_mode,
        state_dir=directory / "state",
        socket=directory / "run" / "culvertd.sock",
        **others,
    )
    datapath = RememberingDatapath()
    daemon = Daemon(settings, Enrolments(settings.state_dir), datapath, PLATFORM, system_dns)
    stopped = asyncio.Event()
    task = asyncio.create_task(daemon.run(stopped))
    async with asyncio.timeout(30):
        while not settings.socket.exists():
            await asyncio.sleep(0.01)
            if task.done():
                task.result()
    async with grpc.aio.insecure_channel(f"unix:{settings.socket}") as channel:
        try:
            yield Running(daemon, settings, datapath, local_pb2_grpc.LocalServiceStub(channel))
        finally:
            stopped.set()
            await task
