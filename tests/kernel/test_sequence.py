"""Sequence numbers and replay, judged by Linux and by us: around 2^32, at the window's edge, out of order."""

from __future__ import annotations

import pytest
from culvert_ipsec.esp import EspError, Inbound, Outbound
from linux_esp.packets import EXPERIMENT, Ip
from linux_esp.suites import SUITES, Suite
from linux_esp.two_tuns import HERE, THERE, Kernel, Shape, forwarded, unwrapped, wrapped
from linux_esp.xfrm import refused

pytestmark = pytest.mark.slow

TO_LINUX, TO_US = 0x1001, 0x2002
GCM = SUITES[0]
EDGE = 2**32
WINDOW = 1024
EVERY_SUITE = pytest.mark.parametrize("suite", SUITES, ids=str)


def numbered(src: str, dst: str, count: int) -> list[Ip]:
    return [Ip(src, dst, EXPERIMENT, number.to_bytes(4), ident=number & 0xFFFF) for number in range(count)]


class FromUs:
    """An SA towards Linux; both sides have seen `after`."""

    def __init__(self, kernel: Kernel, suite: Suite = GCM, *, esn: bool = True, after: int = 0) -> None:
        self._kernel, self._shape = kernel, Shape(suite, esn=esn)
        kernel.set(self._shape, (TO_LINUX, suite.key(1), after), (TO_US, suite.key(2), after))
        self.sa = Outbound(TO_LINUX, suite.name, suite.key(1), esn, allow_legacy=True, after=after)

    def sealed(self, count: int) -> list[tuple[Ip, bytes]]:
        """Inner packets, each with the ESP around it."""
        return [(packet, self.sa.seal(bytes(packet))) for packet in numbered(THERE[4], HERE[4], count)]

    def accepted(self, esp: bytes, packet: Ip | None = None) -> bool:
        """Whether Linux lets it in, and as it was."""
        self._kernel.outer.write(bytes(wrapped(self._shape, esp)))
        # The machine has one CPU and the TUN no queue before it: what has not come by now never will.
        got = self._kernel.inner.read(0.05)
        assert got is None or packet is None or got == bytes(forwarded(packet))
        return got is not None


class FromLinux:
    """An SA towards us; both sides have seen `after`."""

    def __init__(self, kernel: Kernel, suite: Suite = GCM, *, esn: bool = True, after: int = 0) -> None:
        self._kernel, self._shape = kernel, Shape(suite, esn=esn)
        kernel.set(self._shape, (TO_LINUX, suite.key(1), after), (TO_US, suite.key(2), after))
        self.sa = Inbound(TO_US, suite.name, suite.key(2), esn, WINDOW, allow_legacy=True, after=after)

    def sealed(self, count: int) -> list[tuple[Ip, bytes]]:
        pairs: list[tuple[Ip, bytes]] = []
        for packet in numbered(HERE[4], THERE[4], count):
            self._kernel.inner.write(bytes(packet))
            sealed = self._kernel.outer.read()
            assert sealed is not None
            pairs.append((packet, unwrapped(self._shape, sealed)))
        return pairs

    def cause(self, esp: bytes, packet: Ip | None = None) -> str:
        """Why we refuse it; "" for a packet that we take as it was."""
        try:
            opened = self.sa.open(esp)
        except EspError as error:
            return error.cause
        assert packet is None or opened == bytes(forwarded(packet))
        return ""


@EVERY_SUITE
def test_linux_follows_us_over_2_to_the_32(kernel: Kernel, suite: Suite) -> None:
    us = FromUs(kernel, suite, after=EDGE - 4)
    pairs = us.sealed(8)
    assert [int.from_bytes(esp[4:8]) for _, esp in pairs] == [EDGE - 3, EDGE - 2, EDGE - 1, 0, 1, 2, 3, 4]
    # The first of the new subspace, then the last of the old: the high half is guessed both ways.
    for index in (0, 4, 1, 2, 7, 3, 5, 6):
        assert us.accepted(pairs[index][1], pairs[index][0]), index
    assert not any(us.accepted(esp) for _, esp in pairs)
    assert refused(kernel.inbound).replayed == len(pairs)


@EVERY_SUITE
def test_we_follow_linux_over_2_to_the_32(kernel: Kernel, suite: Suite) -> None:
    linux = FromLinux(kernel, suite, after=EDGE - 4)
    pairs = linux.sealed(8)
    assert [int.from_bytes(esp[4:8]) for _, esp in pairs] == [EDGE - 3, EDGE - 2, EDGE - 1, 0, 1, 2, 3, 4]
    for index in (0, 4, 1, 2, 7, 3, 5, 6):
        assert linux.cause(pairs[index][1], pairs[index][0]) == "", index
    assert {linux.cause(esp) for _, esp in pairs} == {"replay"}


def test_both_refuse_another_high_half_of_the_sequence_number(kernel: Kernel) -> None:
    us = FromUs(kernel, after=5)
    elsewhere = Outbound(TO_LINUX, GCM.name, GCM.key(1), after=5 + EDGE)
    assert not us.accepted(elsewhere.seal(bytes(us.sealed(1)[0][0])))
    assert refused(kernel.inbound).forged == 1
    linux = FromLinux(kernel, after=5 + EDGE)
    behind = Inbound(TO_US, GCM.name, GCM.key(2), after=5)
    with pytest.raises(EspError) as failure:
        behind.open(linux.sealed(1)[0][1])
    assert failure.value.cause == "icv"


@pytest.mark.parametrize("esn", [True, False], ids=["esn", "seq32"])
def test_linux_takes_a_window_out_of_order_and_no_more(kernel: Kernel, esn: bool) -> None:
    us = FromUs(kernel, esn=esn, after=5000)
    pairs = us.sealed(WINDOW + 1)
    assert us.accepted(pairs[-1][1], pairs[-1][0])
    for packet, esp in reversed(pairs[1:-1]):
        assert us.accepted(esp, packet)
    assert not us.accepted(pairs[0][1])  # one too old
    assert not us.accepted(pairs[500][1])


@pytest.mark.parametrize("esn", [True, False], ids=["esn", "seq32"])
def test_we_take_a_window_out_of_order_and_no_more(kernel: Kernel, esn: bool) -> None:
    linux = FromLinux(kernel, esn=esn, after=5000)
    pairs = linux.sealed(WINDOW + 1)
    assert linux.cause(pairs[-1][1], pairs[-1][0]) == ""
    for packet, esp in reversed(pairs[1:-1]):
        assert linux.cause(esp, packet) == ""
    assert linux.cause(pairs[0][1]) != ""
    assert linux.cause(pairs[500][1]) == "replay"


def test_neither_seals_past_the_last_32_bit_number(kernel: Kernel) -> None:
    """RFC 4303 section 3.3.3: numbers never cycle."""
    us = FromUs(kernel, esn=False, after=EDGE - 2)
    packet, esp = us.sealed(1)[0]
    assert us.accepted(esp, packet)
    with pytest.raises(EspError) as failure:
        us.sealed(1)
    assert failure.value.cause == "hard_limit"
    linux = FromLinux(kernel, esn=False, after=EDGE - 2)
    packet, esp = linux.sealed(1)[0]
    assert linux.cause(esp, packet) == ""
    kernel.inner.write(bytes(packet))
    assert kernel.outer.read(0.2) is None
