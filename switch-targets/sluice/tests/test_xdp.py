"""Ports on AF_XDP: wires.p4 between two wires whose frames go past the kernel."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from gateway_wires import Wire, run
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw
from sluice_rig import SWITCH, Controller, Sluice

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
QUIET = 0.3


def given(wan: int = 1, lan: int = 2) -> list[str]:
    return ["--port", f"{wan}=wan,xdp", "--port", f"{lan}=lan,xdp"]


def words(arguments: dict[str, str]) -> list[str]:
    return [word for pair in arguments.items() for word in pair]


@pytest.fixture
def ports() -> tuple[int, int]:
    """Ports of wan and lan: three together, as wires.p4 has it."""
    return 1, 2


@pytest.fixture
def sluice(
    rig: None, program: Path, arguments: dict[str, str], ports: tuple[int, int], tmp_path: Path
) -> Iterator[Sluice]:
    switch = Sluice(program, [*words(arguments), *given(*ports)], tmp_path / "sluice.log")
    yield switch
    if switch.process.poll() is None:
        assert switch.stop() == 0
    print(switch.log.read_text())


@pytest.fixture
async def forwarding(controller: Controller) -> AsyncIterator[None]:
    async with controller(p4info=PROGRAMS / "wires.p4info.txtpb", p4blob=PROGRAMS / "wires.json"):
        yield


def frame(length: int, tagged: bool = False) -> Packet:
    ethernet = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    link = ethernet / Dot1Q(vlan=9) if tagged else ethernet
    return link / IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=1, dport=2) / Raw(bytes(length - 28))


def attached(interface: str) -> bool:
    return "prog/xdp" in run("ip", "-n", SWITCH, "link", "show", interface)


@pytest.mark.parametrize("ports", [(1, 2), (0, 3)])
async def test_frames_pass_both_ways(forwarding: None, sluice: Sluice, wan: Wire, lan: Wire) -> None:
    assert attached("wan")
    for source, target in ((wan, lan), (lan, wan)):
        for sent in (frame(46), frame(1500), frame(1500, tagged=True)):
            source.send(sent)
            assert bytes(target.receive() or b"") == bytes(sent)


async def test_more_frames_than_there_is_memory_for_pass_in_order(
    forwarding: None, wan: Wire, lan: Wire
) -> None:
    for start in range(0, 10_000, 100):
        sent = [bytes(frame(64)) + number.to_bytes(4) for number in range(start, start + 100)]
        for each in sent:
            wan.send(each)
        assert [bytes(lan.receive() or b"") for _ in sent] == sent


async def test_frames_beyond_the_mtu_are_dropped_and_said(
    forwarding: None, sluice: Sluice, wan: Wire, lan: Wire
) -> None:
    run("ip", "-n", SWITCH, "link", "set", "lan", "mtu", "600")
    try:
        await asyncio.sleep(0.1)
        wan.send(frame(601))
        assert lan.receive(QUIET) is None
        wan.send(frame(600))
        assert lan.receive() is not None
    finally:
        run("ip", "-n", SWITCH, "link", "set", "lan", "mtu", "1500")
    await sluice.says("longer than the MTU")


async def test_an_interface_that_was_down_works_again(forwarding: None, wan: Wire, lan: Wire) -> None:
    run("ip", "-n", SWITCH, "link", "set", "lan", "down")
    for _ in range(10):
        wan.send(frame(100))
    await asyncio.sleep(0.2)
    run("ip", "-n", SWITCH, "link", "set", "lan", "up")
    for _ in range(30):
        wan.send(frame(200))
        if lan.receive(QUIET) is not None:
            return
    pytest.fail("nothing came through after the interface was up again")


async def test_the_interface_is_free_again_after_a_kill(sluice: Sluice) -> None:
    assert attached("wan")
    sluice.process.kill()
    sluice.process.wait()
    await asyncio.sleep(0.1)
    assert not attached("wan")


def test_an_interface_with_another_program_is_refused(
    sluice: Sluice, program: Path, arguments: dict[str, str]
) -> None:
    command = ["ip", "netns", "exec", SWITCH, str(program), *words(arguments), *given()]
    second = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    assert second.returncode == 1
    assert "cannot open interface wan for port 1" in second.stderr
    assert "Take the other XDP program off it" in second.stderr


def test_an_interface_with_several_queues_is_refused(
    rig: None, program: Path, arguments: dict[str, str]
) -> None:
    many = ["numtxqueues", "2", "numrxqueues", "2"]
    run("ip", "-n", SWITCH, "link", "add", "many", *many, "type", "veth", "peer", "name", "many2")
    try:
        command = ["ip", "netns", "exec", SWITCH, str(program), *words(arguments), "--port", "1=many,xdp"]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
        assert refused.returncode == 1
        assert "it has 2 receive queues" in refused.stderr
    finally:
        run("ip", "-n", SWITCH, "link", "delete", "many")
