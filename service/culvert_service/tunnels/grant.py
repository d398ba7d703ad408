"""The answer to a device: a tunnel's parameters and one generation of its keys."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field

from culvert_proto.contract import Suite
from culvert_proto.sa import Limits

from culvert_service.gateways.key_wrap import KeyWrap, new_sa_key
from culvert_service.gateways.sa import Spi
from culvert_service.gateways.selector import Selector
from culvert_service.gateways.site import Probe
from culvert_service.gateways.tunnel_entries import Pair, Path, WrappedKeys
from culvert_service.tunnels.pool import Inner


@dataclass(frozen=True, slots=True)
class PairKeys:
    """Fresh keys of one SA pair. They exist only until the answer is sent, and `repr` omits them."""

    to_gateway: bytes = field(repr=False)
    to_device: bytes = field(repr=False)

    @classmethod
    def new(cls, suite: Suite) -> PairKeys:
        return cls(new_sa_key(suite), new_sa_key(suite))

    def wrap_with(self, wrap: KeyWrap) -> WrappedKeys:
        return WrappedKeys(wrap.wrap(self.to_gateway), wrap.wrap(self.to_device))


@dataclass(frozen=True, slots=True)
class GrantedPair:
    generation: int
    to_gateway: Spi
    to_device: Spi
    keys: PairKeys
    suite: Suite
    soft: Limits

    @classmethod
    def of(cls, pair: Pair, keys: PairKeys, path: Path) -> GrantedPair:
        return cls(pair.generation, pair.to_gateway.spi, pair.to_device.spi, keys, path.suite, path.soft)


@dataclass(frozen=True, slots=True)
class Renewed:
    pair: GrantedPair
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class GrantedTunnel:
    id: uuid.UUID
    resource: str
    fqdn: str
    idle_seconds: int
    gateway: str
    gateway_address: str
    inner: Inner
    remote_prefixes: tuple[str, ...]
    selectors: tuple[Selector, ...]
    site_mtu: int
    path_mtu: int | None
    probe: Probe | None
    pair: GrantedPair


class Timeline:
    """The time of a request at each step: microseconds from its arrival."""

    def __init__(self) -> None:
        self._arrived = time.perf_counter()
        self.decided_us = 0
        self.programmed_us = 0

    def note_decided(self) -> None:
        self.decided_us = self._elapsed()

    def note_programmed(self) -> None:
        self.programmed_us = self._elapsed()

    def _elapsed(self) -> int:
        return round((time.perf_counter() - self._arrived) * 1e6)
