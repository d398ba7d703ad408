"""The userspace backend of culvert_ipsec. Its calls block, so they are made on one thread of their own, one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import culvert_ipsec
from culvert_proto import CulvertError, Reason

from culvert_client.config import Config
from culvert_client.core.client_events import Desired, Measured, SaWorn
from culvert_client.core.grant import Limits, Sa, Sas, TunnelId, Usage

# Inner packets of GCM-16 over UDP on a 1500-byte link (RFC 4301 section 8), while no tunnel says otherwise.
MTU_WITHOUT_TUNNEL = 1438

Value = TypeVar("Value")

_log = logging.getLogger(__name__)


class Userspace:
    """Conforms to `datapath.Datapath`."""

    name = "userspace"

    def __init__(self, settings: Config, thread: ThreadPoolExecutor, inner: culvert_ipsec.Userspace) -> None:
        self._settings, self._thread, self._inner = settings, thread, inner

    @classmethod
    async def open(cls, settings: Config) -> Userspace:
        """Raises CulvertError when the interface or the port is not to be had."""
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="datapath")
        legacy = sorted(suite.value for suite in settings.legacy_suites)
        create = lambda: culvert_ipsec.Userspace.create(settings.tun_name, settings.udp_port, legacy)  # noqa: E731
        return cls(settings, thread, await _on(thread, create))

    def on_soft_limit(self, told: Callable[[SaWorn], None]) -> None:
        def take() -> None:
            for limit in self._inner.take_soft_limits():
                told(SaWorn(TunnelId(limit.tunnel_id), limit.spi))

        asyncio.get_running_loop().add_reader(self._inner.fileno(), take)

    async def apply(self, desired: Desired) -> None:
        state = to_ipsec(desired, self._settings)
        await _on(self._thread, lambda: self._inner.apply(state))
        self._thread.submit(self._repair)

    def _repair(self) -> None:
        try:
            self._inner.repair()
        except culvert_ipsec.DatapathError as error:
            _log.warning("the tunnel device could not be checked: %s", error)

    async def measure(self) -> Measured:
        counters = await _on(self._thread, self._inner.counters)
        return Measured(
            usage={
                TunnelId(tunnel_id): Usage(
                    it.inbound.packets, it.outbound.packets, it.inbound.bytes, it.outbound.bytes
                )
                for tunnel_id, it in counters.tunnels.items()
            },
            drops={TunnelId(tunnel_id): it.drops for tunnel_id, it in counters.tunnels.items()},
        )

    async def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._inner.fileno())
        await _on(self._thread, self._inner.close)
        self._thread.shutdown()


async def _on(thread: ThreadPoolExecutor, work: Callable[[], Value]) -> Value:
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, work)
    except culvert_ipsec.DatapathError as error:
        raise CulvertError(Reason.DATAPATH_FAILED, why=error) from error


def to_ipsec(desired: Desired, settings: Config) -> culvert_ipsec.DatapathState:
    """The same state in the words of culvert_ipsec."""
    return culvert_ipsec.DatapathState(
        tun_name=settings.tun_name,
        udp_port=settings.udp_port,
        mtu=min((sas.tunnel.mtu for sas in desired.tunnels), default=MTU_WITHOUT_TUNNEL),
        inner_addresses=frozenset(str(it) for sas in desired.tunnels for it in sas.tunnel.inner_addresses),
        blocked=frozenset(map(str, desired.blocked)),
        tunnels=tuple(map(_tunnel, desired.tunnels)),
    )


def _tunnel(sas: Sas) -> culvert_ipsec.TunnelState:
    tunnel, outbound = sas.tunnel, sas.outbound
    return culvert_ipsec.TunnelState(
        tunnel_id=tunnel.tunnel_id,
        inner_address=str(tunnel.inner_address),
        selectors=tuple(
            culvert_ipsec.Selector(str(it.prefix), it.protocol, it.ports) for it in tunnel.selectors
        ),
        inner_address6=str(tunnel.inner_address6) if tunnel.inner_address6 else None,
        remote_prefixes=tuple(map(str, tunnel.remote_prefixes)),
        outer_address=str(tunnel.outer_address),
        outer_port=tunnel.outer_port,
        inbound=tuple(map(_inbound, sas.inbound)),
        outbound=culvert_ipsec.OutboundSa(
            outbound.spi,
            outbound.key,
            _limits(outbound.soft),
            _limits(outbound.hard),
            suite=outbound.suite.value,
        ),
    )


def _inbound(sa: Sa) -> culvert_ipsec.InboundSa:
    return culvert_ipsec.InboundSa(
        sa.spi, sa.key, sa.replay_window, _limits(sa.soft), _limits(sa.hard), suite=sa.suite.value
    )


def _limits(limits: Limits) -> culvert_ipsec.Limits:
    # Seconds are the tunnel machine's.
    return culvert_ipsec.Limits(limits.packets, limits.bytes)
