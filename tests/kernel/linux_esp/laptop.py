"""culvert_ipsec's kernel datapath in the namespace `peer`, and its tunnel on the gateway's side."""

from __future__ import annotations

import itertools
import select
from collections.abc import Iterator
from dataclasses import replace

from culvert_ipsec import (
    Counters,
    DatapathState,
    InboundSa,
    Kernel,
    Limits,
    OutboundSa,
    SoftLimit,
    TunnelState,
)

from linux_esp.controller import Controller
from linux_esp.entries import GATEWAY, INNER, OFFICE_PREFIX, Pair, inbound, outbound, policy
from linux_esp.site import Site
from linux_esp.suites import SUITES

# The site's own sockets have 4500.
PORT = 4501
DEVICE = "culvert0"
PREFIXES = tuple(OFFICE_PREFIX.values())
MTU = 1400
GCM = SUITES[0]
NO_LIMITS = Limits()


class Laptop:
    """`pair` is the tunnel's present generation; `None` while it has none."""

    def __init__(self, site: Site, controller: Controller, numbers: Iterator[int]) -> None:
        self._site, self._controller, self._numbers = site, controller, numbers
        self.pair: Pair | None = None
        self.start()
        self.state = DatapathState(DEVICE, PORT, MTU, blocked=frozenset(PREFIXES))

    def start(self) -> None:
        legacy = [suite.name for suite in SUITES[3:]]
        self.path = self._site.peer.call(Kernel.create, DEVICE, PORT, legacy)

    def block(self) -> None:
        self.apply(replace(self.state, tunnels=(), inner_addresses=frozenset()))

    def open(self, pair: Pair, *, soft: Limits = NO_LIMITS, hard: Limits = NO_LIMITS) -> None:
        number = next(self._numbers)
        self.pair = replace(pair, tunnel=number, generation=number, in_udp=True, peer_port=PORT)
        self._controller.insert([*inbound(self.pair, MTU), *outbound(self.pair), *policy(self.pair, MTU)])
        self._give((_inbound(self.pair),), _outbound(self.pair, soft, hard))

    def rekey(self) -> None:
        """As the client does it: new keys on both sides, then the old ones go (RFC 9061 D.2)."""
        assert self.pair is not None
        before, self.pair = self.pair, replace(self.pair, generation=next(self._numbers))
        # The gateway opens with both from now on, and seals with the new one after this side can open it.
        self._controller.insert(inbound(self.pair, MTU))
        self._give((_inbound(before), _inbound(self.pair)), _outbound(self.pair))
        self._controller.insert(outbound(self.pair))
        self._controller.modify(policy(self.pair, MTU))
        self._site.peer.call(self.path.counters)
        self._give((_inbound(self.pair),), _outbound(self.pair))
        self._controller.delete([*inbound(before), *outbound(before)])

    def apply(self, state: DatapathState) -> None:
        self.state = state
        self._site.peer.call(self.path.apply, state)

    def counters(self) -> Counters:
        return self._site.peer.call(self.path.counters)

    def soft_limits(self, seconds: float = 20.0) -> list[SoftLimit]:
        """The next ones; none when there are none in time."""
        if not select.select([self.path.fileno()], [], [], seconds)[0]:
            return []
        return self.path.take_soft_limits()

    def close(self) -> None:
        self._site.peer.call(self.path.close)
        if self.pair is not None:
            self._controller.delete([*policy(self.pair), *inbound(self.pair), *outbound(self.pair)])
            self.pair = None

    def crash(self) -> None:
        """Close the descriptors, as the kernel does for a killed process, and nothing else."""
        self._site.peer.call(self.path._stack.close)

    def _give(self, opening: tuple[InboundSa, ...], sealing: OutboundSa) -> None:
        assert self.pair is not None
        tunnel = TunnelState(
            f"t{self.pair.tunnel}",
            INNER[4],
            PREFIXES,
            GATEWAY[self.pair.outer],
            inbound=opening,
            outbound=sealing,
            inner_address6=INNER[6],
        )
        self.apply(replace(self.state, tunnels=(tunnel,), inner_addresses=frozenset(INNER.values())))


def _inbound(pair: Pair) -> InboundSa:
    return InboundSa(pair.spi_out, pair.key_out, suite=pair.suite.name, esn=pair.esn)


def _outbound(pair: Pair, soft: Limits = NO_LIMITS, hard: Limits = NO_LIMITS) -> OutboundSa:
    return OutboundSa(pair.spi_in, pair.key_in, soft, hard, suite=pair.suite.name, esn=pair.esn)


NUMBERS = itertools.count(10_000)
"""Above those of `Tunnels`."""
