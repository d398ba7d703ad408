"""Packets between a controller and the wires, and copies: `programs/exchange.p4`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from finsy.proto import p4r
from gateway_rig import QUIET
from gateway_wires import Wire
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from sluice_entries import read
from sluice_rig import Controller

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
CODE = fy.GRPCStatusCode
A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
CPU_PORT = 510


@pytest.fixture
def arguments(arguments: dict[str, str]) -> dict[str, str]:
    return {**arguments, "--cpu-port": str(CPU_PORT)}


@pytest.fixture
async def switch(controller: Controller) -> AsyncIterator[fy.Switch]:
    async with controller(
        p4info=PROGRAMS / "exchange.p4info.txtpb", p4blob=PROGRAMS / "exchange.json"
    ) as switch:
        yield switch


def frame(to: str = A, size: int = 100) -> bytes:
    return bytes(Ether(dst=to, src=B, type=0x88B5) / Raw(bytes(n % 256 for n in range(size - 14))))


def forward(to: str, action: str, **args: int) -> fy.P4TableEntry:
    return fy.P4TableEntry(
        "forward", match=fy.Match(dst=int(to.replace(":", ""), 16)), action=fy.Action(action, **args)
    )


async def packets_in(switch: fy.Switch, count: int) -> list[fy.P4PacketIn]:
    found: list[fy.P4PacketIn] = []
    async with asyncio.timeout(3):
        async for packet in switch.read_packets():
            found.append(packet)
            if len(found) == count:
                break
    return found


async def stream_error(switch: fy.Switch, packet: p4r.PacketOut) -> p4r.StreamError:
    client: Any = switch._p4client
    errors: asyncio.Queue[p4r.StreamError] = asyncio.Queue()
    switch._stream_error_message = lambda message: errors.put_nowait(message.error)  # type: ignore[method-assign]
    await client.send(p4r.StreamMessageRequest(packet=packet))
    return await asyncio.wait_for(errors.get(), 2)


class TestPacketOut:
    async def test_it_leaves_where_its_metadata_says(self, switch: fy.Switch, lan: Wire, wan: Wire) -> None:
        await switch.write([fy.P4PacketOut(frame(), egress_port=2, submit_to_ingress=0, unused=0)])
        assert bytes(lan.receive() or b"") == frame()
        assert wan.receive(QUIET) is None

    async def test_it_goes_through_the_tables_when_asked_to(self, switch: fy.Switch, wan: Wire) -> None:
        await switch.insert([forward(A, "to_port", port=1)])
        await switch.write([fy.P4PacketOut(frame(), egress_port=2, submit_to_ingress=1, unused=0)])
        assert bytes(wan.receive() or b"") == frame()

    async def test_many_in_a_row_arrive_in_order(self, switch: fy.Switch, lan: Wire) -> None:
        sent = [frame(size=60 + n) for n in range(600)]
        await switch.write([fy.P4PacketOut(it, egress_port=2, submit_to_ingress=0, unused=0) for it in sent])
        for expected in sent:
            assert bytes(lan.receive() or b"") == expected

    async def test_metadata_may_come_in_any_order(self, switch: fy.Switch, lan: Wire) -> None:
        client: Any = switch._p4client
        for order in itertools.permutations([(1, b"\2"), (2, b"\0"), (3, b"\0")]):
            metadata = [p4r.PacketMetadata(metadata_id=at, value=value) for at, value in order]
            packet = p4r.PacketOut(payload=frame(), metadata=metadata)
            await client.send(p4r.StreamMessageRequest(packet=packet))
            assert bytes(lan.receive() or b"") == frame()

    async def test_padding_may_be_left_out_and_other_metadata_not(self, switch: fy.Switch, lan: Wire) -> None:
        def packet(*fields: tuple[int, bytes], payload: bytes = frame()) -> p4r.PacketOut:
            metadata = [p4r.PacketMetadata(metadata_id=at, value=value) for at, value in fields]
            return p4r.PacketOut(payload=payload, metadata=metadata)

        for bad, text in [
            (packet((1, b"\2")), "'submit_to_ingress' is missing"),
            (packet((1, b"\2"), (2, b"\0"), (9, b"\0")), "no metadata field has the id 9"),
            (packet((1, b"\2"), (2, b"\2")), "does not fit 1 bits"),
            (packet((1, b"\2"), (2, b"\0"), payload=bytes(65_536)), "longer than 65535"),
        ]:
            error = await stream_error(switch, bad)
            assert error.canonical_code == CODE.INVALID_ARGUMENT
            assert text in error.message
            assert error.WhichOneof("details") == "packet_out"
            assert error.packet_out.packet_out == (bad if len(bad.payload) < 65_536 else p4r.PacketOut())
        assert lan.receive(QUIET) is None
        client: Any = switch._p4client
        await client.send(p4r.StreamMessageRequest(packet=packet((2, b"\0"), (1, b"\0\2"))))
        assert bytes(lan.receive() or b"") == frame()

    async def test_a_backup_may_not(self, switch: fy.Switch, controller: Controller) -> None:
        async with controller(p4info=None, p4blob=None, initial_election_id=1) as backup:
            assert not backup.is_primary
            error = await stream_error(backup, p4r.PacketOut(payload=frame()))
            assert error.canonical_code == CODE.PERMISSION_DENIED


class TestPacketIn:
    async def test_it_tells_where_it_came_from(self, switch: fy.Switch, wan: Wire) -> None:
        await switch.insert([forward(A, "punt")])
        waiting = asyncio.create_task(packets_in(switch, 1))
        await asyncio.sleep(0)
        wan.send(Ether(frame()))
        (packet,) = await waiting
        assert packet.payload == frame()
        assert packet.metadata == {"ingress_port": 1, "is_clone": 0, "reason": 0}

    async def test_a_flood_is_bounded_and_writes_go_on(self, switch: fy.Switch, wan: Wire, lan: Wire) -> None:
        await switch.insert([forward(A, "punt"), forward(B, "to_port", port=2)])
        for _ in range(3000):
            wan.send(Ether(frame()))
        await switch.modify([forward(B, "to_port", port=1)])
        await switch.modify([forward(B, "to_port", port=2)])
        wan.send(Ether(frame(B)))
        assert bytes(lan.receive() or b"") == frame(B)
        assert switch.is_primary


class TestReplication:
    async def test_a_group_copies_to_its_ports(self, switch: fy.Switch, wan: Wire, lan: Wire) -> None:
        group = fy.P4MulticastGroupEntry(7, replicas=[1, 2, (CPU_PORT, 5)], metadata=b"flood")
        await switch.insert([group, forward(A, "to_group", group=7)])
        waiting = asyncio.create_task(packets_in(switch, 1))
        await asyncio.sleep(0)
        wan.send(Ether(frame()))
        assert bytes(lan.receive() or b"") == frame()
        assert bytes(wan.receive() or b"") == frame()
        assert (await waiting)[0].metadata["reason"] == 5
        await switch.modify([fy.P4MulticastGroupEntry(7, replicas=[2])])
        wan.send(Ether(frame()))
        assert bytes(lan.receive() or b"") == frame()
        assert wan.receive(QUIET) is None
        await switch.delete([fy.P4MulticastGroupEntry(7)])
        wan.send(Ether(frame()))
        assert lan.receive(QUIET) is None

    async def test_a_clone_is_cut_to_its_session_s_length(
        self, switch: fy.Switch, wan: Wire, lan: Wire
    ) -> None:
        session = fy.P4CloneSessionEntry(5, packet_length_bytes=40, replicas=[(CPU_PORT, 3)])
        await switch.insert([session, forward(A, "mirror", port=2, session=5)])
        waiting = asyncio.create_task(packets_in(switch, 1))
        await asyncio.sleep(0)
        wan.send(Ether(frame()))
        assert bytes(lan.receive() or b"") == frame()
        (packet,) = await waiting
        assert packet.payload == frame()[:40]
        assert packet.metadata == {"ingress_port": 1, "is_clone": 1, "reason": 3}

    async def test_entries_are_read_back(self, switch: fy.Switch) -> None:
        groups = [fy.P4MulticastGroupEntry(n, replicas=[1, (2, n)], metadata=b"m") for n in (1, 2)]
        sessions = [fy.P4CloneSessionEntry(n, packet_length_bytes=n, replicas=[2]) for n in (1, 65535)]
        await switch.insert([*groups, *sessions])
        assert [it.replicas_str() for it in await read(switch, fy.P4MulticastGroupEntry())] == [
            "1 2#1",
            "1 2#2",
        ]
        assert len(await read(switch, fy.P4MulticastGroupEntry(2))) == 1
        assert await read(switch, fy.P4MulticastGroupEntry(3)) == []
        assert [it.session_id for it in await read(switch, fy.P4CloneSessionEntry())] == [1, 65535]
        await switch.delete_all()
        assert await read(switch, fy.P4MulticastGroupEntry(), fy.P4CloneSessionEntry()) == []

    async def test_bad_entries_are_refused(self, switch: fy.Switch) -> None:
        def group(number: int = 1, *replicas: p4r.Replica, insert: bool = True) -> p4r.Update:
            entry = p4r.MulticastGroupEntry(multicast_group_id=number, replicas=replicas)
            engine = p4r.PacketReplicationEngineEntry(multicast_group_entry=entry)
            kind = p4r.Update.INSERT if insert else p4r.Update.MODIFY
            return p4r.Update(type=kind, entity=p4r.Entity(packet_replication_engine_entry=engine))

        def session(**fields: Any) -> p4r.Update:
            entry = p4r.CloneSessionEntry(session_id=1, **fields)
            engine = p4r.PacketReplicationEngineEntry(clone_session_entry=entry)
            return p4r.Update(
                type=p4r.Update.INSERT, entity=p4r.Entity(packet_replication_engine_entry=engine)
            )

        one = p4r.Replica(port=b"\1", instance=1)
        backed = p4r.Replica(port=b"\1", backup_replicas=[p4r.BackupReplica(port=b"\2")])
        bad = [
            (group(0), CODE.INVALID_ARGUMENT, "1 to 65535"),
            (group(65536), CODE.INVALID_ARGUMENT, "1 to 65535"),
            (group(1, insert=False), CODE.NOT_FOUND, "does not exist"),
            (group(1, one, one), CODE.INVALID_ARGUMENT, "replica 1: another one"),
            (group(1, one, p4r.Replica(egress_port=1, instance=1)), CODE.INVALID_ARGUMENT, "another one"),
            (group(1, p4r.Replica(port=b"\1\xff")), CODE.INVALID_ARGUMENT, "510 at most"),
            (group(1, p4r.Replica(port=b"")), CODE.INVALID_ARGUMENT, "the port is empty"),
            (group(1, p4r.Replica()), CODE.INVALID_ARGUMENT, "the port is not set"),
            (group(1, p4r.Replica(port=b"\1", instance=65536)), CODE.INVALID_ARGUMENT, "65535 at most"),
            (group(1, backed), CODE.UNIMPLEMENTED, "backup replicas"),
            (
                group(1, *[p4r.Replica(port=b"\1", instance=n) for n in range(1025)]),
                CODE.RESOURCE_EXHAUSTED,
                "1024 replicas",
            ),
            (session(class_of_service=1), CODE.UNIMPLEMENTED, "class of service"),
            (session(packet_length_bytes=-1), CODE.INVALID_ARGUMENT, "negative"),
        ]
        with pytest.raises(fy.P4ClientError) as refusal:
            await switch.write([update for update, _, _ in bad])
        for at, (_, code, text) in enumerate(bad):
            assert refusal.value.details[at].canonical_code == code
            assert text in refusal.value.details[at].message
        assert await read(switch, fy.P4MulticastGroupEntry(), fy.P4CloneSessionEntry()) == []
