"""Another program, and batches as a whole: what is kept, what is refused, and what packets see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from exchange_entries import (
    CPU_PORT,
    IDS,
    PROGRAM,
    admission,
    config,
    delete,
    every_table,
    forward,
    group,
    insert,
    modify,
    p4info,
)
from finsy.proto import p4i, p4r
from gateway_authority import Authority
from gateway_rig import QUIET
from gateway_wires import Wire
from raw_client import Code, RawClient
from scapy.layers.l2 import Ether
from scapy.packet import Packet

pytestmark = pytest.mark.slow

Change = Callable[[p4i.P4Info, Any], None]


@pytest.fixture
def arguments(arguments: dict[str, str]) -> dict[str, str]:
    return {**arguments, "--cpu-port": str(CPU_PORT)}


@pytest.fixture
async def client(address: str, infrastructure: Authority) -> AsyncIterator[RawClient]:
    async with RawClient(address, infrastructure) as client:
        await client.bid(1)
        yield client


@pytest.fixture
async def primary(client: RawClient) -> RawClient:
    """A primary that has pushed the program."""
    await client.push("VERIFY_AND_COMMIT", config())
    return client


def frame(dst: int = 1) -> Packet:
    return Ether(dst=f"00:00:00:00:00:{dst:02x}", src="02:00:00:00:00:02", type=0x88B5) / bytes(50)


def other(*changes: Change) -> p4r.ForwardingPipelineConfig:
    """The program with changes to its P4Info and its JSON."""
    info, program = p4info(), json.loads(PROGRAM.read_text())
    for change in changes:
        change(info, program)
    return config(info, json.dumps(program).encode())


def other_ids(info: p4i.P4Info, program: Any) -> None:
    """Change the ids as if they had been chosen anew."""
    for objects in (info.tables, info.actions, info.digests):
        for it in objects:
            it.preamble.id += 1000
    for table in info.tables:
        for ref in table.action_refs:
            ref.id += 1000
    for counter in info.direct_counters:
        counter.direct_table_id += 1000
    for action in info.actions:
        for param in action.params:
            param.id += 10


def table_size(size: int) -> Change:
    def change(info: p4i.P4Info, program: Any) -> None:
        info.tables[0].size = size
        tables = [table for pipeline in program["pipelines"] for table in pipeline["tables"]]
        next(it for it in tables if it["name"] == "Forward.forward")["max_size"] = size

    return change


def counter_size(size: int) -> Change:
    def change(info: p4i.P4Info, program: Any) -> None:
        info.counters[0].size = size
        next(it for it in program["counter_arrays"] if it["name"] == "Forward.received")["size"] = size

    return change


def renamed(info: p4i.P4Info, program: Any) -> None:
    """The table `admission` has another name."""
    info.tables[1].preamble.name = "Forward.entrance"
    text = json.dumps(program).replace("Forward.admission", "Forward.entrance")
    program.clear()
    program.update(json.loads(text))


def one_cell() -> p4r.Entity:
    return p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=IDS["received"], index=p4r.Index(index=1)))


def everything() -> list[p4r.Entity]:
    engine = p4r.PacketReplicationEngineEntry()
    return [
        p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData())),
        p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["forward"], is_default_action=True)),
        p4r.Entity(counter_entry=p4r.CounterEntry()),
        p4r.Entity(digest_entry=p4r.DigestEntry()),
        p4r.Entity(packet_replication_engine_entry=engine),
    ]


async def state(client: RawClient) -> list[str]:
    return sorted(map(str, await client.read(*everything())))


def noted(entity: p4r.Entity) -> p4r.Entity:
    entity.table_entry.metadata = b"noted"
    return entity


def learning() -> p4r.Entity:
    limits = p4r.DigestEntry.Config(max_list_size=3)
    return p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=IDS["seen_t"], config=limits))


def default_to(port: int) -> p4r.Entity:
    entity = forward(1, port)
    entity.table_entry.ClearField("match")
    entity.table_entry.is_default_action = True
    return entity


async def fill(client: RawClient) -> None:
    batch = [noted(forward(1, port=2)), forward(2), admission(200), group(3), learning()]
    codes = await client.write(*map(insert, batch), modify(default_to(2)))
    assert set(codes) == {Code.OK}


class TestSaving:
    async def test_writes_go_to_the_saved_program_and_packets_do_not(
        self, primary: RawClient, wan: Wire, lan: Wire
    ) -> None:
        await primary.write(insert(forward(1, port=2)))
        saved = other()
        saved.cookie.cookie = 7
        await primary.push("VERIFY_AND_SAVE", saved)
        assert await primary.read(every_table()) == []
        assert await primary.write(insert(forward(2, port=2))) == [Code.OK]
        wan.send(frame(1))
        assert lan.receive() is not None
        wan.send(frame(2))
        assert lan.receive(QUIET) is None
        asked = p4r.GetForwardingPipelineConfigRequest(device_id=1)
        assert not (await primary.stub.GetForwardingPipelineConfig(asked)).config.HasField("cookie")
        await primary.push("COMMIT")
        assert (await primary.stub.GetForwardingPipelineConfig(asked)).config.cookie.cookie == 7
        wan.send(frame(1))
        assert lan.receive(QUIET) is None
        wan.send(frame(2))
        assert lan.receive() is not None

    async def test_what_was_saved_is_committed_once(self, primary: RawClient) -> None:
        await primary.push("VERIFY_AND_SAVE", config())
        await primary.push("COMMIT")
        assert (await primary.refused(primary.push("COMMIT")))[0] == Code.NOT_FOUND
        await primary.push("VERIFY_AND_SAVE", config())
        await primary.push("VERIFY_AND_COMMIT", config())
        assert (await primary.refused(primary.push("COMMIT")))[0] == Code.NOT_FOUND

    async def test_the_first_program_may_be_a_saved_one(self, client: RawClient) -> None:
        await client.push("VERIFY_AND_SAVE", config())
        await fill(client)
        before = await state(client)
        await client.push("COMMIT")
        assert await state(client) == before


class TestReconciling:
    async def test_everything_is_kept_under_other_ids(self, primary: RawClient, wan: Wire, lan: Wire) -> None:
        await fill(primary)
        for _ in range(3):
            wan.send(frame(1))
            assert lan.receive() is not None
        before = await state(primary)
        await primary.push("RECONCILE_AND_COMMIT", config())
        assert await state(primary) == before
        await primary.push("RECONCILE_AND_COMMIT", other(other_ids))
        wan.send(frame(1))
        assert lan.receive() is not None
        kept = {it.table_entry.table_id: it.table_entry for it in await primary.read(everything()[0])}
        assert set(kept) == {IDS["forward"] + 1000, IDS["admission"] + 1000}
        assert (await primary.read(one_cell()))[0].counter_entry.data.packet_count == 4
        await primary.push("RECONCILE_AND_COMMIT", config())
        after = await primary.read(everything()[0])
        entry = next(it.table_entry for it in after if it.table_entry.metadata)
        assert (entry.metadata, entry.counter_data.packet_count) == (b"noted", 4)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (table_size(1), "table 'Forward.forward': the table holds its 1 entries"),
            (renamed, "the new program has no table 'Forward.admission'"),
        ],
    )
    async def test_what_does_not_fit_changes_nothing(
        self, primary: RawClient, change: Change, text: str
    ) -> None:
        await fill(primary)
        before = await state(primary)
        code, said = await primary.refused(primary.push("RECONCILE_AND_COMMIT", other(change)))
        assert code == Code.INVALID_ARGUMENT
        assert text in said
        assert await state(primary) == before
        await primary.write(delete(admission(200)), delete(forward(2)))
        await primary.push("RECONCILE_AND_COMMIT", other(change))

    async def test_arrays_of_another_size_start_anew(self, primary: RawClient, wan: Wire) -> None:
        cell = one_cell()
        cell.counter_entry.data.packet_count = 5
        await primary.write(modify(cell))
        await primary.push("RECONCILE_AND_COMMIT", config())
        assert (await primary.read(one_cell()))[0].counter_entry.data.packet_count == 5
        await primary.push("RECONCILE_AND_COMMIT", other(counter_size(16)))
        assert (await primary.read(one_cell()))[0].counter_entry.data.packet_count == 0

    async def test_a_default_that_no_client_has_set_is_the_new_programs(self, primary: RawClient) -> None:
        def to_drop(info: p4i.P4Info, program: Any) -> None:
            tables = [table for pipeline in program["pipelines"] for table in pipeline["tables"]]
            forwarding = next(it for it in tables if it["name"] == "Forward.forward")
            punt = next(it for it in program["actions"] if it["name"] == "Forward.punt")
            forwarding["default_entry"].update(action_id=punt["id"], action_data=[])

        await primary.push("RECONCILE_AND_COMMIT", other(to_drop))
        asked = p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["forward"], is_default_action=True))
        (found,) = await primary.read(asked)
        assert found.table_entry.action.action.action_id == IDS["punt"]

    async def test_no_packet_is_lost(self, primary: RawClient, wan: Wire, lan: Wire) -> None:
        await primary.write(insert(forward(1, port=2)))
        count, sent = 1500, asyncio.Event()

        async def flow() -> None:
            for _ in range(count):
                wan.send(frame(1))
                await asyncio.sleep(0.0005)
            sent.set()

        flowing = asyncio.create_task(flow())
        updates = 0
        while not sent.is_set():
            await primary.push("RECONCILE_AND_COMMIT", other(other_ids) if updates % 2 == 0 else config())
            updates += 1
        await flowing
        assert updates > 5
        assert len(lan.drain()) == count


class TestAtomicity:
    @pytest.mark.parametrize("atomicity", ["ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"])
    async def test_a_batch_that_fails_leaves_everything_as_it_was(
        self, primary: RawClient, atomicity: str
    ) -> None:
        await fill(primary)
        before = await state(primary)
        codes = await primary.write(
            insert(forward(9)),
            modify(forward(1, port=1)),
            delete(forward(2)),
            modify(default_to(1)),
            delete(learning()),
            delete(group(3)),
            insert(group(4)),
            insert(forward(9)),
            insert(forward(10)),
            atomicity=atomicity,
        )
        assert codes == [*[Code.ABORTED] * 7, Code.ALREADY_EXISTS, Code.ABORTED]
        assert await state(primary) == before

    @pytest.mark.parametrize("atomicity", ["ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"])
    async def test_a_batch_without_an_error_is_done(self, primary: RawClient, atomicity: str) -> None:
        codes = await primary.write(insert(forward(1)), insert(group(1)), atomicity=atomicity)
        assert codes == [Code.OK, Code.OK]
        assert len(await primary.read(every_table())) == 1

    async def test_packets_see_all_of_a_batch_or_none(self, primary: RawClient, wan: Wire, lan: Wire) -> None:
        """Frames are sent back only between the two updates of a batch."""
        await primary.write(insert(forward(1, port=2)))
        back = modify(forward(1, port=1)), insert(admission(1))
        on = delete(admission(1)), modify(forward(1, port=2))
        done = asyncio.Event()

        async def swap() -> None:
            for n in range(100):
                batch = back if n % 2 == 0 else on
                assert await primary.write(*batch, atomicity="DATAPLANE_ATOMIC") == [Code.OK, Code.OK]
            done.set()

        swapping = asyncio.create_task(swap())
        sent = 0
        while not done.is_set():
            wan.send(frame(1))
            sent += 1
            await asyncio.sleep(0)
        await swapping
        assert 0 < len(lan.drain()) < sent
        assert wan.drain() == []

    async def test_a_role_that_may_not_stops_the_batch(
        self, primary: RawClient, address: str, infrastructure: Authority
    ) -> None:
        async with RawClient(address, infrastructure, name="stranger") as stranger:
            await stranger.bid(1)
            codes = await stranger.write(
                insert(forward(1)), insert(admission(1)), atomicity="ROLLBACK_ON_ERROR"
            )
            assert codes == [Code.ABORTED, Code.PERMISSION_DENIED]
        assert await primary.read(every_table()) == []


class TestConcurrency:
    async def test_batches_of_many_clients_do_not_mix(
        self, primary: RawClient, address: str, infrastructure: Authority
    ) -> None:
        """Batches of all clients write the same keys: one whole batch is there in the end."""
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(RawClient(address, infrastructure, name=f"r{n}"))
                for n in range(6)
            ]
            for client in clients:
                await client.bid(1)

            async def fight(own: int, client: RawClient) -> None:
                mine = [insert(forward(dst, port=own)) for dst in range(1, 21)]
                for _ in range(15):
                    codes = await client.write(*mine, atomicity="ROLLBACK_ON_ERROR")
                    if set(codes) == {Code.OK}:
                        found = await client.read(every_table())
                        assert {port(it) for it in found} == {own}
                        assert len(found) == 20
                        away = [delete(it.entity) for it in mine]
                        assert set(await client.write(*away, atomicity="DATAPLANE_ATOMIC")) == {Code.OK}
                    else:
                        assert codes == [Code.ALREADY_EXISTS, *[Code.ABORTED] * 19]

            await asyncio.gather(*(fight(n + 1, client) for n, client in enumerate(clients)))
        assert await primary.read(every_table()) == []

    async def test_a_client_that_leaves_in_the_middle_has_written_all_or_nothing(
        self, primary: RawClient, address: str, infrastructure: Authority
    ) -> None:
        for pause in (0.0, 0.001, 0.003):
            async with RawClient(address, infrastructure, name="leaver") as leaver:
                await leaver.bid(1)
                cells = [modify(cell(n % 8, n + 1)) for n in range(4000)]
                writing = asyncio.create_task(leaver.write(*cells, atomicity="ROLLBACK_ON_ERROR"))
                await asyncio.sleep(pause)
                writing.cancel()
            await asyncio.sleep(0.2)
            found = await primary.read(p4r.Entity(counter_entry=p4r.CounterEntry()))
            counts = [it.counter_entry.data.packet_count for it in found]
            assert counts in ([0] * 8, [4000 - 7 + n for n in range(8)])
            await primary.write(*(modify(cell(n, 0)) for n in range(8)))


def cell(index: int, count: int) -> p4r.Entity:
    data = p4r.CounterData(packet_count=count)
    entry = p4r.CounterEntry(counter_id=IDS["received"], index=p4r.Index(index=index), data=data)
    return p4r.Entity(counter_entry=entry)


def port(entity: p4r.Entity) -> int:
    return int.from_bytes(entity.table_entry.action.action.params[0].value)
