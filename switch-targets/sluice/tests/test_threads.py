"""`--threads`: several data-plane threads, of which a flow never sees more than one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from exchange_entries import config, forward, insert
from gateway_authority import Authority
from gateway_entries import V4
from gateway_rig import Gateway, esp_bytes, new_tunnel, to_inner
from gateway_wires import Wire
from raw_client import RawClient
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from sluice_rig import Sluice

pytestmark = pytest.mark.slow

THREADS = 3
FLOWS = 60
PACKETS = 40


@pytest.fixture
def arguments(arguments: dict[str, str]) -> dict[str, str]:
    return {**arguments, "--threads": str(THREADS)}


def in_turn() -> list[tuple[int, int]]:
    """Flow and number of each packet."""
    return [(flow, number) for number in range(PACKETS) for flow in range(FLOWS)]


def threads_that_ran(sluice: Sluice) -> list[str]:
    """The data-plane threads that were woken more often than by their clocks."""
    tasks = list(Path(f"/proc/{sluice.process.pid}/task").iterdir())
    woken = {
        (task / "comm").read_text().strip(): int(line.split()[1])
        for task in tasks
        for line in (task / "status").read_text().splitlines()
        if line.startswith("voluntary_ctxt_switches")
    }
    planes = {name: count for name, count in woken.items() if name.startswith("dataplane")}
    assert len(planes) == THREADS
    return [name for name, count in planes.items() if count > 100]


def per_flow(frames: Iterable[Packet]) -> dict[int, list[int]]:
    numbers: dict[int, list[int]] = defaultdict(list)
    for frame in frames:
        numbers[frame[UDP].sport].append(int.from_bytes(bytes(frame[UDP].payload)[:4]))
    return numbers


async def test_every_flow_keeps_its_order_and_all_threads_work(
    address: str, infrastructure: Authority, sluice: Sluice, lan: Wire, wan: Wire
) -> None:
    async with RawClient(address, infrastructure) as client:
        await client.bid(1)
        await client.push("VERIFY_AND_COMMIT", config())
        await client.write(insert(forward(1)))
        for flow, number in in_turn():
            payload = UDP(sport=2000 + flow, dport=9) / Raw(number.to_bytes(4))
            lan.send(Ether(dst="00:00:00:00:00:01") / IP(src="10.0.0.1", dst="10.0.0.2") / payload)
        found = per_flow(wan.drain())
        assert found == {2000 + flow: list(range(PACKETS)) for flow in range(FLOWS)}
    assert len(threads_that_ran(sluice)) == THREADS
    sluice.process.terminate()
    sluice.process.wait(5)
    closed = [line for line in sluice.log.read_text().splitlines() if "port closed" in line]
    assert len(closed) == 2
    assert f"port=2 received={FLOWS * PACKETS} " in closed[1]
    assert f" sent={FLOWS * PACKETS} " in closed[0]


async def test_threads_give_one_association_no_number_twice(wired: Gateway) -> None:
    tunnel = new_tunnel()
    await wired.insert(tunnel.entries())
    for flow, number in in_turn():
        inner = to_inner(V4, UDP(sport=2000 + flow, dport=9) / Raw(number.to_bytes(4)))
        wired.lan.send(wired.on_lan(inner))
    sealed = [int.from_bytes(esp_bytes(frame)[4:8]) for frame in wired.wan.drain()]
    assert sorted(sealed) == list(range(1, FLOWS * PACKETS + 1))
