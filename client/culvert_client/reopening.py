"""The datapath, opened on demand and again after a loss. Protected prefixes stay blocked in every state.

not open ── apply: block, then open ──┬─► open ── another program removes the device ──┐
    ▲                                 └─► CulvertError, until the obstacle is gone     │
    └────── old keys are not used again, and blocked prefixes stay blocked ◄───────────┘
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from culvert_proto import CulvertError, Reason

from culvert_client.config import Config
from culvert_client.core.client_events import Desired, Measured, PacketTrapped, SoftLimitReached
from culvert_client.core.grant import Address, Network, Sas, TunnelId
from culvert_client.platform.interfaces import AnyDatapath, Datapaths, OpenDatapath

log = logging.getLogger("culvertd")


class Datapath(AnyDatapath, Protocol):
    """The daemon's datapath; Reopening conforms."""

    def on_lost(self, notify: Callable[[CulvertError], None]) -> None:
        """Call `notify` on the loop when the tunnels are lost. Prefixes stay blocked; `apply` opens the datapath again."""
        ...

    async def close(self, *, unblock: bool = True) -> None:
        """Remove interface, keys and, unless blocked prefixes are to stay blocked, routes."""
        ...


class Reopening:
    def __init__(self, settings: Config, datapaths: Datapaths) -> None:
        self._settings, self._datapaths = settings, datapaths
        self._inner: OpenDatapath | None = None
        self._changing = asyncio.Lock()
        self._hooks: list[Callable[[OpenDatapath], None]] = []
        self._lost: Callable[[CulvertError], None] = lambda _: None
        self._last = Desired()
        self._told: str | None = None
        # SAs of a lost datapath. They must not be used again: a new datapath would repeat their IVs (RFC 4106 section 3.1).
        self._spent: frozenset[tuple[str, int]] = frozenset()

    @property
    def name(self) -> str:
        """Empty while no datapath is open."""
        return self._inner.name if self._inner is not None else ""

    def on_soft_limit(self, notify: Callable[[SoftLimitReached], None]) -> None:
        self._hook(lambda inner: inner.on_soft_limit(notify))

    def on_trapped(self, notify: Callable[[PacketTrapped], None]) -> None:
        self._hook(lambda inner: inner.on_trapped(notify))

    def on_lost(self, notify: Callable[[CulvertError], None]) -> None:
        self._lost = notify

    def _hook(self, hook: Callable[[OpenDatapath], None]) -> None:
        self._hooks.append(hook)
        if self._inner is not None:
            hook(self._inner)

    async def block(self, prefixes: Iterable[Network]) -> None:
        """Block without opening a datapath. Raises CulvertError if this process may not change routes."""
        await self._datapaths.block(self._settings, prefixes)

    async def apply(self, desired: Desired) -> None:
        async with self._changing:
            inner = self._inner or await self._open(desired)
            self._last = desired
            fresh = tuple(it for it in desired.tunnels if not self._spent & _names(it))
            self._spent &= frozenset(name for it in desired.tunnels for name in _names(it))
            await inner.apply(replace(desired, tunnels=fresh))

    async def _open(self, desired: Desired) -> OpenDatapath:
        await self.block(desired.blocked)
        inner = await self._datapaths.open_datapath(self._settings, self._tell)
        inner.on_gone(lambda: self._on_gone(inner))
        for hook in self._hooks:
            hook(inner)
        self._inner, self._told = inner, None
        return inner

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            log.info("%s", text)

    async def _on_gone(self, inner: OpenDatapath) -> None:
        async with self._changing:
            if inner is not self._inner:
                return
            error = CulvertError(Reason.TUN_LOST, device=self._settings.tun_name)
            log.error("%s", error)
            self._inner = None
            self._spent = frozenset(name for it in self._last.tunnels for name in _names(it))
            try:
                await inner.close(unblock=False)
            except CulvertError as failed:
                log.error("%s", failed)
        self._lost(error)

    async def measure(self) -> Measured:
        return await self._inner.measure() if self._inner is not None else Measured({}, {}, {})

    async def probe(self, targets: Mapping[TunnelId, Address]) -> None:
        if self._inner is not None:
            await self._inner.probe(targets)

    async def on_roam(self) -> None:
        if self._inner is not None:
            await self._inner.on_roam()

    async def repair(self) -> None:
        async with self._changing:
            if self._inner is not None:
                await self._inner.repair()

    async def close(self, *, unblock: bool = True) -> None:
        async with self._changing:
            inner, self._inner = self._inner, None
            if inner is not None:
                await inner.close(unblock=unblock)
            elif unblock:
                await self._datapaths.clean_up()


def _names(sas: Sas) -> frozenset[tuple[str, int]]:
    return frozenset((sas.tunnel.tunnel_id, it.spi) for it in (*sas.inbound, sas.outbound))
