"""The depth of a port's queue, as a program reads it: frames that wait in the kernel for a shaped interface."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from exchange_entries import PROGRAMS
from gateway_wires import Wire, run
from scapy.packet import Packet
from sluice_rig import PEERS, SWITCH, Sluice

pytestmark = pytest.mark.slow

FRAMES = 40
LENGTH = 1000
# The first frame has tokens; the next one has enough of them in a quarter of an hour, or as soon as the rate is another.
SHAPE = ("tbf", "burst", "1100", "limit", "1mb", "rate")
SLOW, FAST = "8bit", "1gbit"


class Report(NamedTuple):
    enq_qdepth: int
    deq_qdepth: int
    deq_timedelta: int


def report(frame: Packet | None) -> Report:
    assert frame is not None
    return Report._make(struct.unpack_from("!III", bytes(frame), 14))


def wait_for_frames(count: int) -> None:
    """Returns when so many wait for port 2's interface."""
    deadline = time.monotonic() + 10
    while f"backlog {count * LENGTH}b {count}p" not in run(
        "tc", "-s", "-n", SWITCH, "qdisc", "show", "dev", "lan"
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def shape(action: str, rate: str) -> None:
    run("tc", "-n", SWITCH, "qdisc", action, "dev", "lan", "root", *SHAPE, rate)


@pytest.fixture(params=[(), ("--no-offload",), ("--threads", "2")], ids=["offload", "no-offload", "threads"])
def switch(
    rig: None, program: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Wire, Wire]]:
    """The wires of ports 1 and 2."""
    files = [str(PROGRAMS / "queues.json"), str(PROGRAMS / "queues.p4info.txtpb")]
    command = ["dev", *files, "-i", "1@wan", "-i", "2@lan", *request.param]
    running = Sluice(program, command, tmp_path / "sluice.log")
    wires = Wire("wan", PEERS), Wire("lan", PEERS)
    yield wires
    for wire in wires:
        wire.close()
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def shaped(switch: tuple[Wire, Wire]) -> Iterator[tuple[Wire, Wire]]:
    """Port 2 sends one frame, and then no more."""
    shape("add", SLOW)
    yield switch
    run("tc", "-n", SWITCH, "qdisc", "del", "dev", "lan", "root")


def test_nothing_waits_at_an_idle_port(switch: tuple[Wire, Wire]) -> None:
    wan, lan = switch
    for _ in range(FRAMES):
        wan.send(bytes(LENGTH))
        assert report(lan.receive()) == (0, 0, 0)


def test_each_frame_says_how_many_wait_before_it(shaped: tuple[Wire, Wire]) -> None:
    wan, lan = shaped
    for _ in range(FRAMES):
        wan.send(bytes(LENGTH))
    assert report(lan.receive()) == (0, 0, 0)
    lan.send(bytes(LENGTH))
    assert report(wan.receive()) == (0, 0, 0), "the other port's queue"
    wait_for_frames(FRAMES - 1)
    shape("change", FAST)
    wan.send(bytes(LENGTH))
    reports = [report(lan.receive()) for _ in range(FRAMES)]
    assert [it.enq_qdepth for it in reports] == list(range(FRAMES))
    assert all(it.deq_qdepth == it.enq_qdepth for it in reports)
    waits = [it.deq_timedelta for it in reports]
    assert waits[0] == 0
    assert waits[-1] > 0
    assert waits == sorted(waits), "that of the frame that has waited longest"
    wan.send(bytes(LENGTH))
    assert report(lan.receive()) == (0, 0, 0)
