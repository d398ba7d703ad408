"""Packet sizes that fit a link: Linux, our ESP, and the controller's figures for clients and gateways, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from culvert_ipsec.esp import Outbound
from culvert_proto.contract import Suite as Offered
from culvert_proto.sa import inner_length
from linux_esp.packets import EXPERIMENT, ICMP, ICMPV6, Ip
from linux_esp.suites import SUITES
from linux_esp.two_tuns import HERE, THERE, Kernel, Shape, wrapped

pytestmark = pytest.mark.slow

LINK_MTU = 1500
SHAPES = [
    Shape(suite, outer, in_udp=in_udp) for suite in SUITES for outer in (4, 6) for in_udp in (False, True)
]
NEXT_HOP_MTU = {ICMP: slice(6, 8), ICMPV6: slice(4, 8)}  # RFC 1191 section 4, RFC 4443 section 3.2


@pytest.fixture
def narrow(kernel: Kernel) -> Iterator[Kernel]:
    kernel.set_link_mtu(LINK_MTU)
    yield kernel
    kernel.set_link_mtu()


@pytest.mark.parametrize("inner", [4, 6], ids=["v4", "v6"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_linux_the_engine_and_the_controller_agree(narrow: Kernel, shape: Shape, inner: int) -> None:
    suite = shape.suite
    narrow.set(shape, (1000, suite.key(1), 0), (2000, suite.key(2), 0))
    told = inner_length(LINK_MTU, shape.outer, Offered(suite.name), udp=shape.in_udp)
    ours = Outbound(2000, suite.name, suite.key(2), allow_legacy=True)
    sizes = [len(bytes(wrapped(shape, ours.seal(bytes(packet(inner, size)))))) for size in (told, told + 1)]
    assert sizes[0] <= LINK_MTU < sizes[1]

    narrow.inner.write(bytes(packet(inner, LINK_MTU)))
    answer = narrow.inner.read()
    assert answer is not None
    error = Ip.parse(answer)
    assert int.from_bytes(error.payload[NEXT_HOP_MTU[error.protocol]]) == told
    narrow.inner.write(bytes(packet(inner, told)))
    sealed = narrow.outer.read()
    assert sealed is not None
    assert len(sealed) == sizes[0]


def packet(version: int, size: int) -> Ip:
    header = 20 if version == 4 else 40
    return Ip(HERE[version], THERE[version], EXPERIMENT, bytes(size - header))
