"""The datapaths of culvert_ipsec: the kernel's IPsec if possible, otherwise Culvert's own.

Their calls block, so they run one at a time on a thread of their own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

import culvert_ipsec
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from culvert_proto.sa import Limits

from culvert_client.config import Config, DatapathChoice
from culvert_client.core.client_events import Desired, Measured, PacketTrapped, SoftLimitReached
from culvert_client.core.grant import (
    Address,
    Network,
    Probe,
    Sa,
    Sas,
    Source,
    Tunnel,
    TunnelId,
    Usage,
)
from culvert_client.platform.linux.ports import holder_of

# The inner MTU of GCM-16 over UDP on a 1500-byte link (RFC 4301 section 8), used without a tunnel.
MTU_WITHOUT_TUNNEL = 1438
# Seconds between reads of trapped packets, which limits the work in a flood.
TRAPPED_EVERY = 0.05
# RFC 3948 section 4, in seconds.
KEEPALIVE_EVERY = 20.0
# Our tunable, in seconds: the log reports at most this often that other programs remove the blocking.
REMOVAL_TOLD_EVERY = 60.0

Value = TypeVar("Value")
Inner = TypeVar("Inner", culvert_ipsec.Kernel, culvert_ipsec.Userspace)

_log = logging.getLogger("culvert_client.backend")


async def open_datapath(settings: Config, tell: Callable[[str], None]) -> Userspace | Kernel:
    """As Datapaths."""
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="datapath")
    legacy = sorted(suite.value for suite in settings.legacy_suites)
    if settings.datapath is not DatapathChoice.USERSPACE:
        try:
            create_kernel = partial(culvert_ipsec.Kernel.create, settings.tun_name, settings.udp_port, legacy)
            return Kernel(settings, thread, await _open(thread, create_kernel, settings))
        except CulvertError as error:
            if settings.datapath is DatapathChoice.KERNEL:
                raise
            tell(f"the kernel's IPsec is not used: {error.__cause__}")
    create_userspace = partial(_create_userspace, settings, legacy)
    return Userspace(settings, thread, await _open(thread, create_userspace, settings))


async def block(settings: Config, prefixes: Iterable[Network]) -> None:
    """As Datapaths."""
    wanted = [str(it) for it in prefixes]
    try:
        await asyncio.to_thread(culvert_ipsec.block, wanted)
    except culvert_ipsec.DatapathError as error:
        if isinstance(error.__cause__, PermissionError):
            raise CulvertError(Reason.TUN_FORBIDDEN, device=settings.tun_name) from error
        raise CulvertError(Reason.DATAPATH_FAILED, why=error) from error


async def clean_up() -> None:
    """As Datapaths."""
    try:
        await asyncio.to_thread(culvert_ipsec.clean_up)
    except culvert_ipsec.DatapathError as error:
        raise CulvertError(Reason.DATAPATH_FAILED, why=error) from error


async def _open(thread: ThreadPoolExecutor, create: Callable[[], Value], settings: Config) -> Value:
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, create)
    except culvert_ipsec.NotOpenedError as error:
        raise await asyncio.to_thread(_obstacle, error, settings) from error
    except culvert_ipsec.DatapathError as error:
        raise CulvertError(Reason.DATAPATH_FAILED, why=error) from error


def _obstacle(error: culvert_ipsec.NotOpenedError, settings: Config) -> CulvertError:
    match error.obstacle:
        case culvert_ipsec.Obstacle.PORT_TAKEN:
            holder = holder_of(settings.udp_port) or Phrase("Another program")
            return CulvertError(Reason.UDP_PORT_TAKEN, what=holder, port=settings.udp_port)
        case culvert_ipsec.Obstacle.NAME_TAKEN:
            return CulvertError(Reason.TUN_NAME_TAKEN, device=settings.tun_name)
        case culvert_ipsec.Obstacle.NO_TUN:
            return CulvertError(Reason.TUN_MISSING)
        case culvert_ipsec.Obstacle.FORBIDDEN:
            return CulvertError(Reason.TUN_FORBIDDEN, device=settings.tun_name)
        case culvert_ipsec.Obstacle.OTHER:
            return CulvertError(Reason.DATAPATH_FAILED, why=error)


def _create_userspace(settings: Config, legacy: list[str]) -> culvert_ipsec.Userspace:
    created = culvert_ipsec.Userspace.create(settings.tun_name, settings.udp_port, legacy)
    # Remove a crashed daemon's policies, which would match before the device; its routes keep blocking.
    culvert_ipsec.remove_leftovers()
    return created


class _Backend(Generic[Inner]):
    """Conforms to OpenDatapath, but for its name."""

    def __init__(self, settings: Config, thread: ThreadPoolExecutor, inner: Inner) -> None:
        self._settings, self._thread, self._inner = settings, thread, inner
        self._listens: asyncio.TimerHandle | None = None
        self._tell_trapped: Callable[[PacketTrapped], None] | None = None
        self._state: culvert_ipsec.DatapathState | None = None
        self._repair_waits = False
        self._tell_gone: Callable[[], object] = lambda: None
        self._carried: frozenset[tuple[str | None, str | None, tuple[str, ...]]] = frozenset()
        self._removal_told = -REMOVAL_TOLD_EVERY

    def on_soft_limit(self, notify: Callable[[SoftLimitReached], None]) -> None:
        def take() -> None:
            for limit in self._inner.take_soft_limits():
                notify(SoftLimitReached(TunnelId(limit.tunnel_id), limit.spi))

        asyncio.get_running_loop().add_reader(self._inner.fileno(), take)

    def on_trapped(self, notify: Callable[[PacketTrapped], None]) -> None:
        loop, trap = asyncio.get_running_loop(), self._inner.trap

        def take() -> None:
            loop.remove_reader(trap)
            self._listens = loop.call_later(TRAPPED_EVERY, loop.add_reader, trap, take)
            self._take_trapped()

        self._tell_trapped = notify
        loop.add_reader(trap, take)

    def _take_trapped(self) -> None:
        if self._tell_trapped is not None:
            for address in self._inner.trap.take():
                self._tell_trapped(PacketTrapped(address))

    def on_gone(self, notify: Callable[[], Coroutine[object, object, None]]) -> None:
        loop, removals = asyncio.get_running_loop(), self._inner.removals
        self._tell_gone = lambda: asyncio.run_coroutine_threadsafe(notify(), loop)

        def take() -> None:
            if removals.take() and not self._repair_waits:
                self._repair_waits = True
                self._thread.submit(self._repair)

        loop.add_reader(removals, take)

    async def apply(self, desired: Desired) -> None:
        state = self._state = to_ipsec(desired, self._settings)
        try:
            await _on(self._thread, lambda: self._inner.apply(state))
        except CulvertError as error:
            if isinstance(error.__cause__, culvert_ipsec.DeviceGoneError):
                self._tell_gone()
            raise
        # `apply` has already read the waiting packets, so the reader is not called for them.
        self._take_trapped()
        self._thread.submit(self._repair)

    async def repair(self) -> None:
        await _on(self._thread, self._repair)

    def _repair(self) -> None:
        self._repair_waits = False
        try:
            changed, now = self._inner.repair(), time.monotonic()
            if changed and now - self._removal_told >= REMOVAL_TOLD_EVERY:
                self._removal_told = now
                _log.warning(
                    "another program had changed Culvert's device, routes or rules; they are restored"
                )
        except culvert_ipsec.DeviceGoneError:
            self._tell_gone()
            return
        except culvert_ipsec.DatapathError as error:
            _log.warning("the tunnel device could not be checked: %s", error)
        self._end_lost_sockets()

    def _end_lost_sockets(self) -> None:
        tunnels = self._state.tunnels if self._state is not None else ()
        before = self._carried
        self._carried = frozenset((it.inner_address, it.inner_address6, it.remote_prefixes) for it in tunnels)
        # Skip after a renewal of keys, which changes no addresses: listing all sockets takes time.
        if self._carried <= before:
            return
        try:
            ended = culvert_ipsec.end_lost(tunnels, self._settings.tun_name)
        except OSError as error:
            _log.warning("sockets that no tunnel carries could not be ended: %s", error)
            return
        if ended:
            _log.info("%s sockets had another address than their tunnel, and were ended", ended)

    async def measure(self) -> Measured:
        counters = await _on(self._thread, self._counters)
        return Measured(
            usage={TunnelId(tunnel_id): _usage(it) for tunnel_id, it in counters.tunnels.items()},
            drops={TunnelId(tunnel_id): it.drops for tunnel_id, it in counters.tunnels.items()},
            all_drops=counters.drops,
        )

    def _counters(self) -> culvert_ipsec.Counters:
        return self._inner.counters()

    async def probe(self, targets: Mapping[TunnelId, Address]) -> None:
        await _on(self._thread, lambda: self._probe(targets))

    def _probe(self, targets: Mapping[TunnelId, Address]) -> None:
        for tunnel in self._state.tunnels if self._state is not None else ():
            if (target := targets.get(TunnelId(tunnel.tunnel_id))) is not None:
                culvert_ipsec.nudge(tunnel, str(target))

    async def on_roam(self) -> None:
        await _on(self._thread, self._nudge)
        # The new network may use addresses of a closed tunnel.
        self._thread.submit(self._repair)

    def _nudge(self) -> None:
        for tunnel in self._state.tunnels if self._state is not None else ():
            culvert_ipsec.nudge(tunnel)

    async def close(self, *, unblock: bool = True) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._inner.removals)
        loop.remove_reader(self._inner.fileno())
        loop.remove_reader(self._inner.trap)
        if self._listens is not None:
            self._listens.cancel()
        await _on(self._thread, partial(self._inner.close, unblock=unblock))
        self._thread.shutdown()


class Userspace(_Backend[culvert_ipsec.Userspace]):
    name = "userspace"


class Kernel(_Backend[culvert_ipsec.Kernel]):
    name = "kernel"
    _kept_alive = 0.0

    def _nudge(self) -> None:
        self._inner.follow()
        super()._nudge()

    def _counters(self) -> culvert_ipsec.Counters:
        # Counters are read while a tunnel is up, often enough for both of these.
        self._inner.follow()
        if time.monotonic() - self._kept_alive >= KEEPALIVE_EVERY:
            self._inner.keep_alive()
            self._kept_alive = time.monotonic()
        return self._inner.counters()


async def _on(thread: ThreadPoolExecutor, work: Callable[[], Value]) -> Value:
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, work)
    except (culvert_ipsec.DatapathError, OSError) as error:
        raise CulvertError(Reason.DATAPATH_FAILED, why=error) from error


def to_ipsec(desired: Desired, settings: Config) -> culvert_ipsec.DatapathState:
    """Convert the state to culvert_ipsec's types."""
    return culvert_ipsec.DatapathState(
        tun_name=settings.tun_name,
        udp_port=settings.udp_port,
        mtu=max((sas.tunnel.mtu for sas in desired.tunnels), default=MTU_WITHOUT_TUNNEL),
        inner_addresses=frozenset(str(it) for sas in desired.tunnels for it in sas.tunnel.inner_addresses),
        blocked=frozenset(map(str, desired.blocked)),
        tunnels=tuple(map(_tunnel, desired.tunnels)),
        closed=tuple(map(_to_closed_tunnel, (*desired.sources, *map(_source, desired.closed)))),
        on_link=tuple(
            culvert_ipsec.OnLink(str(it.prefix), it.index, str(it.source) if it.source else None)
            for it in desired.on_link
        ),
    )


def _source(tunnel: Tunnel) -> Source:
    return Source(tunnel.remote_prefixes, tunnel.inner_addresses)


def _to_closed_tunnel(source: Source) -> culvert_ipsec.ClosedTunnel:
    return culvert_ipsec.ClosedTunnel(tuple(map(str, source.addresses)), tuple(map(str, source.prefixes)))


# ICMP errors of the gateway about this computer's packets (RFC 792, RFC 4443).
_ICMP = {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}


def _answers(probe: Probe) -> culvert_ipsec.Selector:
    return culvert_ipsec.Selector(str(probe.source), _ICMP[probe.source.version])


def _tunnel(sas: Sas) -> culvert_ipsec.TunnelState:
    tunnel, outbound = sas.tunnel, sas.outbound
    return culvert_ipsec.TunnelState(
        tunnel_id=tunnel.tunnel_id,
        inner_address=str(tunnel.inner_address),
        selectors=tuple(
            culvert_ipsec.Selector(str(it.prefix), it.protocol, it.ports) for it in tunnel.selectors
        ),
        inbound_only=(_answers(tunnel.probe),) if tunnel.probe is not None else (),
        inner_address6=str(tunnel.inner_address6) if tunnel.inner_address6 else None,
        remote_prefixes=tuple(map(str, tunnel.remote_prefixes)),
        outer_address=str(tunnel.outer_address),
        outer_port=tunnel.outer_port,
        mtu=tunnel.mtu,
        inbound=tuple(map(_inbound, sas.inbound)),
        outbound=culvert_ipsec.OutboundSa(
            outbound.spi,
            outbound.key,
            _limits(outbound.soft),
            _limits(outbound.hard),
            suite=outbound.suite,
        ),
    )


def _inbound(sa: Sa) -> culvert_ipsec.InboundSa:
    return culvert_ipsec.InboundSa(
        sa.spi, sa.key, sa.replay_window, _limits(sa.soft), _limits(sa.hard), suite=sa.suite
    )


def _limits(limits: Limits) -> Limits:
    # The tunnel's machine handles the limit in seconds.
    return replace(limits, seconds=0)


def _usage(counted: culvert_ipsec.TunnelCounters) -> Usage:
    """With the kernel's datapath the order of packets between two readings is unknown."""
    back, out = counted.inbound, counted.outbound
    sent_last = out.last is not None and (back.last is None or out.last > back.last)
    return Usage(back.packets, out.packets, back.bytes, out.bytes, sent_last)
