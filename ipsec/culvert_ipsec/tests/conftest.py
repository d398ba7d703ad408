"""Two datapaths in two network namespaces, joined by a veth pair.

```
 a: 10.99.0.2 on tun0 ══ ESP in UDP ══ 10.20.0.10 on tun0 :b
    192.0.2.1 on wire ────── veth ────── 192.0.2.2 on wire
```
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from culvert_ipsec import DatapathState, InboundSa, OutboundSa, TunnelState, Userspace

from .reference_esp import SUITES

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def entered(namespace: str) -> Generator[None]:
    """This thread, and the sockets and threads it makes, are in the namespace."""
    with Path("/proc/thread-self/ns/net").open() as home, Path("/run/netns", namespace).open() as there:
        _set_namespace(there.fileno())
        try:
            yield
        finally:
            _set_namespace(home.fileno())


def _set_namespace(descriptor: int) -> None:
    if _libc.setns(descriptor, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


@dataclass
class End:
    """An end of the tunnel, and the state that it was last given."""

    namespace: str
    inner: str
    outer: str
    offloads: bool = True
    state: DatapathState = field(init=False)
    datapath: Userspace = field(init=False)

    def open(self, peer: End) -> None:
        tunnel = TunnelState("t1", self.inner, (f"{peer.inner}/32",), peer.outer)
        self.state = DatapathState("tun0", 4500, 1438, frozenset({self.inner}), tunnels=(tunnel,))
        with entered(self.namespace):
            legacy = [suite for suite in SUITES if "hmac" in suite]
            self.datapath = Userspace.create("tun0", 4500, legacy, offloads=self.offloads)

    def apply(
        self, *, inbound: tuple[InboundSa, ...] | None = None, outbound: OutboundSa | None = None
    ) -> None:
        """The tunnel's SAs; what is not given stays as it is."""
        tunnel = self.state.tunnels[0]
        tunnel = replace(tunnel, inbound=inbound or tunnel.inbound, outbound=outbound or tunnel.outbound)
        self.state = replace(self.state, tunnels=(tunnel,))
        with entered(self.namespace):
            self.datapath.apply(self.state)

    def close(self) -> None:
        with entered(self.namespace):
            self.datapath.close()


def sa_key(number: int, suite: str = "aes-gcm-256") -> bytes:
    return (number.to_bytes(4) * 16)[: SUITES[suite].material]


@pytest.fixture
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[End, End]]:
    """Both ends with an SA pair of generation 1: SPI 0x1001 towards a, 0x2001 towards b. The parameter: their offloads."""
    prefix = f"culvert-test-{os.getpid()}-esp-"
    with_offloads: tuple[bool, bool] = getattr(request, "param", (True, True))
    a = End(prefix + "a", "10.99.0.2", "192.0.2.1", with_offloads[0])
    b = End(prefix + "b", "10.20.0.10", "192.0.2.2", with_offloads[1])
    opened: list[End] = []
    try:
        for end in (a, b):
            _ip("netns", "add", end.namespace)
        _ip("link", "add", "wire", "netns", a.namespace, "type", "veth", "peer", "wire", "netns", b.namespace)
        for end in (a, b):
            _ip("-n", end.namespace, "address", "add", f"{end.outer}/24", "dev", "wire")
            _ip("-n", end.namespace, "link", "set", "wire", "up")
            _ip("-n", end.namespace, "link", "set", "lo", "up")
        for end, peer in ((a, b), (b, a)):
            end.open(peer)
            opened.append(end)
        a.apply(inbound=(InboundSa(0x1001, sa_key(1)),), outbound=OutboundSa(0x2001, sa_key(2)))
        b.apply(inbound=(InboundSa(0x2001, sa_key(2)),), outbound=OutboundSa(0x1001, sa_key(1)))
        yield a, b
    finally:
        for end in opened:
            end.close()
        for end in (a, b):
            if Path("/run/netns", end.namespace).exists():
                _ip("netns", "delete", end.namespace)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
