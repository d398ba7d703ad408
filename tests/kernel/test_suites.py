"""Linux's ESP and ours, each suite in each direction: what one seals, the other opens to the last byte."""

from __future__ import annotations

import pytest
from culvert_ipsec.esp import Inbound, Outbound
from linux_esp.packets import EXPERIMENT, Ip
from linux_esp.suites import SUITES, Suite
from linux_esp.two_tuns import HERE, LINUX, PEER, THERE, Kernel, Shape, forwarded, unwrapped, wrapped
from linux_esp.xfrm import State, ip

pytestmark = pytest.mark.slow

TO_LINUX, TO_US = 0x1001, 0x2002
# 1 byte; around the 4 and 16 bytes to which suites pad; the largest of an Ethernet (RFC 4303 in IPv4); a jumbo frame.
SIZES = (1, 2, 3, 4, 7, 8, 13, 14, 15, 16, 17, 255, 1360, 1393, 1394, 1395, 1396, 1397, 1406, 9000)
SHAPES = tuple(
    Shape(suite, outer, esn, in_udp)
    for suite in SUITES
    for outer in (4, 6)
    for esn in (True, False)
    for in_udp in (False, True)
)


@pytest.mark.parametrize("suite", SUITES, ids=str)
def test_the_kernel_has_the_suite(kernel: Kernel, suite: Suite) -> None:
    """A kernel that lacks one fails here, by name, before the matrix does."""
    for version in (4, 6):
        ip(["xfrm state flush", State(PEER[version], LINUX[version], 0x100, suite, suite.key(1)).add()])


@pytest.mark.parametrize("inner", [4, 6], ids=["v4", "v6"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
class TestBothWays:
    def test_linux_opens_what_we_seal(self, kernel: Kernel, shape: Shape, inner: int) -> None:
        key = shape.suite.key(1)
        kernel.set(shape, (TO_LINUX, key, 0), (TO_US, shape.suite.key(2), 0))
        ours = Outbound(TO_LINUX, shape.suite.name, key, shape.esn, allow_legacy=True)
        for packet in packets(THERE[inner], HERE[inner], inner):
            kernel.outer.write(bytes(wrapped(shape, ours.seal(bytes(packet)))))
            assert kernel.inner.read() == bytes(forwarded(packet)), len(packet.payload)

    def test_we_open_what_linux_seals(self, kernel: Kernel, shape: Shape, inner: int) -> None:
        key = shape.suite.key(2)
        kernel.set(shape, (TO_LINUX, shape.suite.key(1), 0), (TO_US, key, 0))
        ours = Inbound(TO_US, shape.suite.name, key, shape.esn, allow_legacy=True)
        for packet in packets(HERE[inner], THERE[inner], inner):
            kernel.inner.write(bytes(packet))
            sealed = kernel.outer.read()
            assert sealed is not None
            assert ours.open(unwrapped(shape, sealed)) == bytes(forwarded(packet)), len(packet.payload)


def packets(src: str, dst: str, version: int) -> list[Ip]:
    header = 20 if version == 4 else 40
    payloads = [bytes(index & 0xFF for index in range(size)) for size in (*SIZES, 9000 - header)]
    return [Ip(src, dst, EXPERIMENT, payload, ident=len(payload)) for payload in payloads]
