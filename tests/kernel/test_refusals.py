"""Packets that both sides refuse: tampered, truncated, foreign and dummy ones. Linux counts them by cause."""

from __future__ import annotations

import pytest
from culvert_ipsec.esp import EspError, Inbound, Outbound
from linux_esp.packets import EXPERIMENT, Ip
from linux_esp.suites import SUITES, Suite
from linux_esp.two_tuns import HERE, THERE, Kernel, Shape, forwarded, unwrapped, wrapped
from linux_esp.xfrm import errors, refused

pytestmark = pytest.mark.slow

TO_LINUX, TO_US = 0x1001, 0x2002
EVERY_SUITE = pytest.mark.parametrize("suite", SUITES, ids=str)
SEQUENCE = 4
"""Offset of the sequence number (RFC 4303 section 2)."""


def damaged(esp: bytes) -> list[bytes]:
    """Packets with one wrong bit: in the sequence number, after it (IV or payload), in the middle, in the ICV."""
    offsets = (SEQUENCE + 3, SEQUENCE + 4, len(esp) // 2, len(esp) - 1)
    return [esp[:at] + bytes([esp[at] ^ 2]) + esp[at + 1 :] for at in offsets]


@EVERY_SUITE
def test_linux_refuses_what_was_tampered_with(kernel: Kernel, suite: Suite) -> None:
    shape = Shape(suite)
    kernel.set(shape, (TO_LINUX, suite.key(1), 0), (TO_US, suite.key(2), 0))
    sa = Outbound(TO_LINUX, suite.name, suite.key(1), allow_legacy=True)
    packet = Ip(THERE[4], HERE[4], EXPERIMENT, b"payload" * 9)
    esp = sa.seal(bytes(packet))
    before = errors()["XfrmInStateProtoError"]
    for forged in damaged(esp):
        kernel.outer.write(bytes(wrapped(shape, forged)))
    assert kernel.inner.read(0.1) is None
    assert refused(kernel.inbound).forged == len(damaged(esp))
    assert errors()["XfrmInStateProtoError"] - before == len(damaged(esp))
    kernel.outer.write(bytes(wrapped(shape, esp)))
    assert kernel.inner.read() == bytes(forwarded(packet))


@EVERY_SUITE
def test_we_refuse_what_was_tampered_with(kernel: Kernel, suite: Suite) -> None:
    shape = Shape(suite)
    kernel.set(shape, (TO_LINUX, suite.key(1), 0), (TO_US, suite.key(2), 0))
    packet = Ip(HERE[4], THERE[4], EXPERIMENT, b"payload" * 9)
    kernel.inner.write(bytes(packet))
    sealed = kernel.outer.read()
    assert sealed is not None
    esp = unwrapped(shape, sealed)
    sa = Inbound(TO_US, suite.name, suite.key(2), allow_legacy=True)
    for forged in damaged(esp):
        with pytest.raises(EspError) as failure:
            sa.open(forged)
        assert failure.value.cause == "icv"
    for length in range(len(esp)):
        with pytest.raises(EspError) as failure:
            sa.open(esp[:length])
        assert failure.value.cause in ("malformed", "icv")
    assert sa.open(esp) == bytes(forwarded(packet))


def test_linux_counts_an_spi_that_it_does_not_know(kernel: Kernel) -> None:
    suite = SUITES[0]
    shape = Shape(suite)
    kernel.set(shape, (TO_LINUX, suite.key(1), 0), (TO_US, suite.key(2), 0))
    before = errors()["XfrmInNoStates"]
    stranger = Outbound(0x9999, suite.name, suite.key(1))
    kernel.outer.write(bytes(wrapped(shape, stranger.seal(bytes(Ip(THERE[4], HERE[4], EXPERIMENT, b"?"))))))
    assert kernel.inner.read(0.1) is None
    assert errors()["XfrmInNoStates"] == before + 1


@EVERY_SUITE
def test_linux_drops_our_dummies_and_takes_the_padded(kernel: Kernel, suite: Suite) -> None:
    """RFC 4303 sections 2.6 and 2.7."""
    shape = Shape(suite)
    kernel.set(shape, (TO_LINUX, suite.key(1), 0), (TO_US, suite.key(2), 0))
    sa = Outbound(TO_LINUX, suite.name, suite.key(1), allow_legacy=True, pad_to=300)
    for length in (0, 1, 100, 1400):
        kernel.outer.write(bytes(wrapped(shape, sa.seal_dummy(length))))
    assert kernel.inner.read(0.1) is None
    assert (refused(kernel.inbound).forged, refused(kernel.inbound).replayed) == (0, 0)
    packet = Ip(THERE[4], HERE[4], EXPERIMENT, b"short")
    esp = sa.seal(bytes(packet))
    assert len(esp) > 300
    kernel.outer.write(bytes(wrapped(shape, esp)))
    assert kernel.inner.read() == bytes(forwarded(packet))
