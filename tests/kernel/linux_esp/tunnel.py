"""A tunnel set up on both of its ends: the gateway's tables, and the peer's XFRM."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from linux_esp.controller import Controller
from linux_esp.entries import GATEWAY, INNER, OFFICE_PREFIX, PEER, Pair, inbound, outbound, policy
from linux_esp.xfrm import State, ip
from linux_esp.xfrm import policy as xfrm_policy


def to_gateway(pair: Pair) -> State:
    """Linux's outbound SA."""
    return State(
        PEER[pair.outer], GATEWAY[pair.outer], pair.spi_in, pair.suite, pair.key_in, pair.esn, _ports(pair)
    )


def from_gateway(pair: Pair) -> State:
    """Linux's inbound SA."""
    return State(
        GATEWAY[pair.outer], PEER[pair.outer], pair.spi_out, pair.suite, pair.key_out, pair.esn, _ports(pair)
    )


def _ports(pair: Pair) -> tuple[int, int] | None:
    return (4500, 4500) if pair.in_udp else None


class Tunnel:
    """An open tunnel. `pair` is its present generation."""

    def __init__(self, controller: Controller, pair: Pair, generations: Iterator[int], mtu: int) -> None:
        self._controller, self._generations, self._mtu = controller, generations, mtu
        self.pair = pair
        controller.insert([*inbound(pair, mtu), *outbound(pair), *policy(pair, mtu)])
        out = PEER[pair.outer], GATEWAY[pair.outer]
        back = GATEWAY[pair.outer], PEER[pair.outer]
        policies: list[str] = []
        for version in (4, 6):
            policies.append(xfrm_policy("out", (INNER[version], OFFICE_PREFIX[version]), out))
            policies.append(xfrm_policy("in", (OFFICE_PREFIX[version], INNER[version]), back))
        ip([from_gateway(pair).add(), to_gateway(pair).add(), *policies], "peer")

    def make(self) -> Pair:
        """The next generation, used by both ends; the last one still opens what is on its way. Returns that one."""
        before, self.pair = self.pair, replace(self.pair, generation=next(self._generations))
        self._controller.insert(inbound(self.pair, self._mtu))
        ip([from_gateway(self.pair).add()], "peer")
        self._controller.insert(outbound(self.pair))
        self._controller.modify(policy(self.pair, self._mtu))
        # Linux prefers the newer of two SAs, and within one second either: so the old one goes.
        ip([to_gateway(self.pair).add(), f"xfrm state delete {to_gateway(before).name}"], "peer")
        return before

    def breaks(self, before: Pair) -> None:
        """The former generation's end, once what was on its way has come."""
        ip([f"xfrm state delete {from_gateway(before).name}"], "peer")
        self._controller.delete([*inbound(before), *outbound(before)])

    def close(self) -> None:
        ip(["xfrm policy flush", "xfrm state flush"], "peer")
        self._controller.delete([*policy(self.pair), *inbound(self.pair), *outbound(self.pair)])


class Tunnels:
    """Opens a tunnel at a time. Each tunnel and generation has numbers of its own, as a controller gives them."""

    def __init__(self, controller: Controller) -> None:
        self._controller, self._numbers = controller, itertools.count(1)

    @contextmanager
    def opened(self, pair: Pair, inner_mtu: int = 0) -> Generator[Tunnel]:
        number = next(self._numbers)
        numbered = replace(pair, tunnel=number, generation=number)
        tunnel = Tunnel(self._controller, numbered, self._numbers, inner_mtu)
        try:
            yield tunnel
        finally:
            tunnel.close()
