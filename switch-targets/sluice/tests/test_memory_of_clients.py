"""Memory is bounded whatever clients send, ask for, or do not read."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from exchange_entries import CPU_PORT, IDS, config, delete, forward, insert, modify
from finsy.proto import p4r
from gateway_authority import CLIENT, Authority
from gateway_wires import Wire
from inventory_entries import EVERYTHING, generation, observed, texts, updates
from inventory_entries import config as inventory
from numbered_flow import open_wire
from raw_client import Code, RawClient
from resident import Resident
from sluice_rig import Sluice
from test_readers import READER_NAME

pytestmark = pytest.mark.slow

BUDGET = 1024  # MiB: what requests and answers that are under way hold together (src/intake.rs)
READERS_BUDGET = 256  # MiB of these: for clients that only read
SLACK = 192  # MiB: what the allocator keeps, and where the reckoning is rough
MANY = 12 << 20
_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
_OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
_HEAD = bytes.fromhex("000000000001") + b"\x02\0"


@pytest.fixture
def arguments(arguments: dict[str, str]) -> dict[str, str]:
    return {**arguments, "--cpu-port": str(CPU_PORT)}


@pytest.fixture
def resident(sluice: Sluice) -> Resident:
    return Resident(sluice.process.pid)


@pytest.fixture
async def client(address: str, infrastructure: Authority) -> AsyncIterator[RawClient]:
    async with RawClient(address, infrastructure, options=_UNLIMITED) as client:
        await client.bid(1)
        await client.push("VERIFY_AND_COMMIT", config())
        yield client


def table_entry(count: int) -> bytes:
    """An update of an entry with so many match fields."""
    content = repeated(p4r.TableEntry(match=[p4r.FieldMatch()]), count)
    for message, field in (
        (p4r.Entity, "table_entry"),
        (p4r.Update, "entity"),
        (p4r.WriteRequest, "updates"),
    ):
        content = inside(message.DESCRIPTOR, field, content)
    return content


def repeated(message: Any, count: int) -> bytes:
    """Lists of messages in a row are one list."""
    return message.SerializeToString() * count


def inside(descriptor: Any, field: str, content: bytes) -> bytes:
    length, tag = len(content), descriptor.fields_by_name[field].number << 3 | 2
    encoded = bytearray([tag])
    while length >= 0x80:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(encoded) + bytes([length]) + content


def pushed(program: bytes, info: bytes = b"") -> bytes:
    config = p4r.ForwardingPipelineConfig.DESCRIPTOR
    content = inside(config, "p4info", info) + inside(config, "p4_device_config", program)
    return inside(p4r.SetForwardingPipelineConfigRequest.DESCRIPTOR, "config", content)


@dataclass(frozen=True)
class Bomb:
    """`most`: elements that the reckoning lets in."""

    method: str
    made: Callable[[int], bytes]
    most: int


_PUSH = "SetForwardingPipelineConfig"
BOMBS = {
    "updates": Bomb("Write", lambda n: repeated(p4r.WriteRequest(updates=[p4r.Update()]), n), 600_000),
    "match fields": Bomb("Write", table_entry, 5_000_000),
    "wildcards": Bomb("Read", lambda n: repeated(p4r.ReadRequest(entities=[EVERYTHING[0]]), n), 600_000),
    "JSON": Bomb(_PUSH, lambda n: pushed(b"[" + b"[]," * n + b"[]]"), 6_000_000),
    "tables": Bomb(_PUSH, lambda n: pushed(b"{}", bytes([2 << 3 | 2, 0]) * n), 1_900_000),
}


class TestRequests:
    @pytest.mark.parametrize("kind", BOMBS)
    async def test_what_is_small_on_the_wire_and_large_in_memory_is_refused(
        self, client: RawClient, resident: Resident, kind: str
    ) -> None:
        bomb = BOMBS[kind]
        request = bomb.made(MANY)
        assert len(request) < 64 << 20
        call = client.bytes_call(bomb.method)
        with resident.growing_at_most(BUDGET + SLACK):
            for code, said in await asyncio.gather(*(client.refused(call(request)) for _ in range(3))):
                assert code == Code.RESOURCE_EXHAUSTED
                assert "under way would hold more than 1024 MiB" in said
        assert await client.write(insert(forward(1)), delete(forward(1))) == [Code.OK, Code.OK]

    @pytest.mark.parametrize("kind", BOMBS)
    async def test_what_is_reckoned_to_fit_does(
        self, client: RawClient, resident: Resident, kind: str
    ) -> None:
        bomb = BOMBS[kind]
        request = bomb.made(bomb.most)
        with resident.growing_at_most(BUDGET + SLACK), contextlib.suppress(grpc.aio.AioRpcError):
            await client.bytes_call(bomb.method)(request)
        assert await client.write(insert(forward(1)), delete(forward(1))) == [Code.OK, Code.OK]

    async def test_what_is_too_long_is_refused(self, client: RawClient, resident: Resident) -> None:
        with resident.growing_at_most(BUDGET):
            code, said = await client.refused(client.bytes_call("Write")(bytes((64 << 20) + 1)))
        assert code == Code.RESOURCE_EXHAUSTED
        assert "longer than 67108864 bytes" in said

    async def test_a_huge_batch_is_done(self, client: RawClient, resident: Resident) -> None:
        """250,000 updates. Nothing of them stays."""
        many = [modify(cell(it % 8, it)) for it in range(250_000)]
        with resident.growing_at_most(BUDGET):
            assert set(await client.write(*many)) == {Code.OK}

    async def test_answers_that_nobody_takes(
        self, client: RawClient, resident: Resident, address: str, infrastructure: Authority
    ) -> None:
        await client.push("VERIFY_AND_COMMIT", inventory())
        want = generation(0)
        await client.write(*updates(await observed(client), want))
        request = client.mine(p4r.ReadRequest(entities=EVERYTHING * 10))
        with resident.growing_at_most(BUDGET + SLACK):
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(4):
                    greedy = RawClient(address, infrastructure, options=_OWN_CONNECTION)
                    await stack.enter_async_context(greedy)
                    for _ in range(16):
                        stack.callback(greedy.stub.Read(request).cancel)
                await asyncio.sleep(3)
        await asyncio.sleep(0.2)
        assert texts(await observed(client)) == texts(want)


class TestReaders:
    @pytest.fixture
    def arguments(self, arguments: dict[str, str], infrastructure: Authority) -> dict[str, str]:
        infrastructure.issue("reader", READER_NAME, CLIENT)
        return {**arguments, "--reader-name": READER_NAME}

    async def test_answers_that_no_reader_takes_leave_the_rest_to_the_controller(
        self, client: RawClient, resident: Resident, address: str, infrastructure: Authority
    ) -> None:
        await client.push("VERIFY_AND_COMMIT", inventory())
        want = generation(0)
        await client.write(*updates(await observed(client), want))
        request = p4r.ReadRequest(device_id=1, entities=EVERYTHING * 10)

        def reader() -> RawClient:
            # With the probe, gRPC would take many MiB ahead of its application.
            options = [*_OWN_CONNECTION, ("grpc.http2.bdp_probe", 0)]
            return RawClient(address, infrastructure, options=options, certificate="reader")

        with resident.growing_at_most(READERS_BUDGET + SLACK):
            async with contextlib.AsyncExitStack() as stack:
                greedy = [await stack.enter_async_context(reader()) for _ in range(4)]
                calls = [one.stub.Read(request) for one in greedy for _ in range(16)]
                for call in calls:
                    stack.callback(call.cancel)
                # The first message of an answer is taken, and all of it is held until the client has taken the last.
                answers = [asyncio.ensure_future(call.read()) for call in calls]
                answered, _ = await asyncio.wait(answers, timeout=30, return_when=asyncio.FIRST_EXCEPTION)
                refusals = [it.exception() for it in answered if it.exception()]
                assert "requests and answers of readers that are under way" in str(refusals)
                assert texts(await observed(client)) == texts(want)
        async with reader() as last, asyncio.timeout(10):
            # The clients that are gone have given their part back.
            assert texts(await observed(last)) == texts(want)


class TestStreams:
    async def test_thousands_of_streams_that_nobody_reads(
        self, client: RawClient, resident: Resident, wan: Wire, address: str, infrastructure: Authority
    ) -> None:
        """64 are served. Each is the primary of a role and hears of every packet: 192 of them wait for it, and what HTTP/2
        has taken."""
        learn = forward(1)
        learn.table_entry.action.action.action_id = IDS["punt"]
        learn.table_entry.action.action.ClearField("params")
        await client.write(insert(learn))
        with resident.growing_at_most(SLACK):
            async with contextlib.AsyncExitStack() as stack:
                for connection in range(40):
                    greedy = RawClient(address, infrastructure, options=_OWN_CONNECTION)
                    await stack.enter_async_context(greedy)
                    for number in range(60):
                        stream = greedy.stub.StreamChannel()
                        role = p4r.Role(name=f"{connection}-{number}")
                        bid = p4r.MasterArbitrationUpdate(
                            device_id=1, role=role, election_id=p4r.Uint128(low=1)
                        )
                        with contextlib.suppress(Exception):
                            await stream.write(p4r.StreamMessageRequest(arbitration=bid))
                await asyncio.to_thread(flood, 20_000, 1400)
                await asyncio.sleep(0.5)

    async def test_digests_that_nobody_acknowledges(self, client: RawClient, resident: Resident) -> None:
        """1,024 wait, 4,096 are unacknowledged, whatever is learned."""
        limits = p4r.DigestEntry.Config(max_list_size=100, ack_timeout_ns=3600 * 10**9)
        learn = forward(1, port=2)
        learn.table_entry.action.action.action_id = IDS["learn"]
        digest = p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=IDS["seen_t"], config=limits))
        await client.write(insert(learn), insert(digest))
        with resident.growing_at_most(48):
            await asyncio.to_thread(flood, 200_000, 60)

    async def test_at_the_limit_of_connections_the_longest_idle_is_closed(
        self, client: RawClient, resident: Resident, sluice: Sluice, address: str, infrastructure: Authority
    ) -> None:
        """224 connections stay open, at some 100 KB each, and among them the connection with a stream."""
        before = descriptors(sluice)
        async with contextlib.AsyncExitStack() as stack:
            with resident.growing_at_most(128):
                for _ in range(300):
                    channel = RawClient(address, infrastructure, options=_OWN_CONNECTION)
                    stack.push_async_callback(channel.channel.close)
                    await channel.stub.Capabilities(p4r.CapabilitiesRequest(), timeout=3)
                # A connection that has to go closes its socket a moment after its place is given away.
                async with asyncio.timeout(10):
                    while descriptors(sluice) - before != 223:  # noqa: ASYNC110  there is no event to wait for
                        await asyncio.sleep(0.05)
        await client.bid(2)


def descriptors(sluice: Sluice) -> int:
    return len(list(Path(f"/proc/{sluice.process.pid}/fd").iterdir()))


def cell(index: int, count: int) -> p4r.Entity:
    data = p4r.CounterData(packet_count=count)
    entry = p4r.CounterEntry(counter_id=IDS["received"], index=p4r.Index(index=index), data=data)
    return p4r.Entity(counter_entry=entry)


def flood(count: int, size: int, seconds: float = 30) -> None:
    """Frames of as many sources, for at most so long."""
    wire, end = open_wire("wan"), time.monotonic() + seconds
    rest = bytes.fromhex("88b5") + bytes(size - 14)
    for number in range(count):
        wire.send(_HEAD + number.to_bytes(4) + rest)
        if time.monotonic() > end:
            break
    wire.close()
