"""Port 0 is a port: with the controller, as copies, counted, and apart from the ports for drops and for the CPU."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import finsy as fy
import pytest
from finsy.proto import p4r
from gateway_rig import QUIET
from gateway_wires import Relay, Wire
from sluice_entries import read
from sluice_rig import SWITCH, Controller, Sluice
from test_exchange import CPU_PORT, PROGRAMS, A, B, forward, frame, packets_in
from test_metrics import PORT as METRICS_PORT
from test_metrics import get

pytestmark = pytest.mark.slow

DROP_PORT = 511


@pytest.fixture
def sluice(rig: None, program: Path, arguments: dict[str, str], tmp_path: Path) -> Iterator[Sluice]:
    options = {**arguments, "--cpu-port": str(CPU_PORT), "--metrics": f"127.0.0.1:{METRICS_PORT}"}
    words = [word for pair in options.items() for word in pair]
    switch = Sluice(program, [*words, "--port", "0=wan", "--port", "2=lan"], tmp_path / "sluice.log")
    yield switch
    assert switch.process.poll() is not None or switch.stop() == 0


@pytest.fixture
async def switch(controller: Controller) -> AsyncIterator[fy.Switch]:
    async with controller(
        p4info=PROGRAMS / "exchange.p4info.txtpb", p4blob=PROGRAMS / "exchange.json"
    ) as switch:
        yield switch


async def test_a_packet_out_leaves_and_a_packet_in_says_where_it_came_in(
    switch: fy.Switch, wan: Wire
) -> None:
    await switch.write([fy.P4PacketOut(frame(), egress_port=0, submit_to_ingress=0, unused=0)])
    assert bytes(wan.receive() or b"") == frame()
    await switch.insert([forward(A, "punt")])
    wan.send(frame())
    [packet] = await packets_in(switch, 1)
    assert packet["ingress_port"] == 0
    assert packet.payload == frame()


async def test_copies_leave(switch: fy.Switch, wan: Wire, lan: Wire) -> None:
    await switch.insert([fy.P4MulticastGroupEntry(1, replicas=[0, 2]), forward(A, "to_group", group=1)])
    lan.send(frame(A))
    assert bytes(wan.receive() or b"") == frame(A)
    assert bytes(lan.receive() or b"") == frame(A)
    await switch.insert([fy.P4CloneSessionEntry(5, replicas=[0]), forward(B, "mirror", port=2, session=5)])
    lan.send(frame(B))
    assert bytes(wan.receive() or b"") == frame(B)
    assert bytes(lan.receive() or b"") == frame(B)
    assert [it.replicas_str() for it in await read(switch, fy.P4MulticastGroupEntry())] == ["0 2"]


async def test_the_ports_for_drops_and_for_the_cpu_are_others(
    switch: fy.Switch, wan: Wire, lan: Wire
) -> None:
    entry = forward(A, "to_port", port=DROP_PORT)
    await switch.insert([entry])
    lan.send(frame())
    assert wan.receive(QUIET) is None
    assert lan.receive(QUIET) is None
    await switch.modify([forward(A, "to_port", port=0)])
    lan.send(frame())
    assert bytes(wan.receive() or b"") == frame()
    await switch.modify([forward(A, "to_port", port=CPU_PORT)])
    wan.send(frame())
    [packet] = await packets_in(switch, 1)
    assert packet["ingress_port"] == 0
    assert wan.receive(QUIET) is None
    replica = p4r.Replica(port=DROP_PORT.to_bytes(2, "big"))
    group = p4r.MulticastGroupEntry(multicast_group_id=2, replicas=[replica])
    engine = p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
    with pytest.raises(fy.P4ClientError) as refused:
        await switch.write(
            [p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(packet_replication_engine_entry=engine))]
        )
    assert refused.value.details[0].canonical_code == fy.GRPCStatusCode.INVALID_ARGUMENT
    assert "510 at most" in refused.value.details[0].message


async def test_it_is_counted(switch: fy.Switch, sluice: Sluice, wan: Wire, lan: Wire) -> None:
    await switch.insert([forward(A, "to_port", port=2), forward(B, "to_port", port=0)])
    for near, far, to in ((wan, lan, A), (lan, wan, B)):
        near.send(frame(to))
        assert bytes(far.receive() or b"") == frame(to)
    relay = Relay(METRICS_PORT, SWITCH)
    try:
        code, _, page = get(relay.address, "/metrics")
    finally:
        relay.close()
    assert code == 200
    assert 'port="0",interface="wan"' in page
    assert sluice.stop() == 0
    [line] = [it for it in sluice.log.read_text().splitlines() if "port closed port=0 " in it]
    assert "received=1 " in line
    assert " sent=1 " in line
