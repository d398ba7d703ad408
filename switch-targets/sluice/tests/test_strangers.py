"""Connections without a certificate, however many, keep no controller out and do not fill the log."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import p4r
from gateway_authority import CLIENT, Authority
from gateway_target import GRPC_PORT
from gateway_wires import inside
from raw_client import RawClient
from sluice_rig import SWITCH, Sluice
from test_metrics import PORT as METRICS_PORT
from test_metrics import get
from test_readers import READER_NAME

pytestmark = pytest.mark.slow

MANY = 300
_OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
# The address of the relay in the switch's namespace, and so of each client in these tests.
CLIENTS = "127.0.0.1"


@contextlib.contextmanager
def strangers(source: Callable[[int], str], port: int = GRPC_PORT) -> Generator[None]:
    """Holds MANY idle connections. A connection that the switch closes is opened again at once."""
    ended, full = threading.Event(), threading.Event()

    def connect(number: int) -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", port), 5, source_address=(source(number), 0))
        opened.setblocking(False)
        return opened

    def hold() -> None:
        held = {number: connect(number) for number in range(MANY)}
        full.set()
        while not ended.wait(0.05):
            for number, opened in list(held.items()):
                with contextlib.suppress(BlockingIOError):
                    with contextlib.suppress(ConnectionError):
                        opened.recv(1)
                    opened.close()
                    held[number] = connect(number)
        for opened in held.values():
            opened.close()

    thread = threading.Thread(target=lambda: inside(SWITCH, hold))
    thread.start()
    assert full.wait(20)
    try:
        yield
    finally:
        ended.set()
        thread.join()


def one_address(_: int) -> str:
    return "127.0.0.2"


def hundred_addresses(number: int) -> str:
    return f"127.0.{1 + number % 100}.1"


async def answers(address: str, infrastructure: Authority, certificate: str = "controller") -> bool:
    """Whether the switch serves a new connection of a client."""
    client = RawClient(address, infrastructure, _OWN_CONNECTION, certificate=certificate)
    try:
        await client.stub.Capabilities(p4r.CapabilitiesRequest(), timeout=3)
    except grpc.aio.AioRpcError:
        return False
    finally:
        await client.channel.close()
    return True


@pytest.mark.parametrize(
    "source",
    [one_address, hundred_addresses],
    ids=["another address", "a hundred addresses"],
)
async def test_idle_connections_keep_no_controller_out(
    address: str, infrastructure: Authority, sluice: Sluice, source: Callable[[int], str]
) -> None:
    with strangers(source):
        assert [await answers(address, infrastructure) for _ in range(5)] == [True] * 5
        await asyncio.sleep(4)
        assert await answers(address, infrastructure)
    lines = sluice.log.read_text().splitlines()
    assert len([line for line in lines if "WARN" in line]) <= 3, lines


async def test_idle_connections_from_a_controllers_address_only_delay_it(
    address: str, infrastructure: Authority
) -> None:
    """The controller may have to try again."""
    with strangers(lambda _: CLIENTS):
        for _ in range(3):
            async with asyncio.timeout(10):
                while not await answers(address, infrastructure):
                    pass


async def test_an_open_stream_outlives_a_flood(address: str, infrastructure: Authority) -> None:
    async with RawClient(address, infrastructure) as controller:
        await controller.bid(1)
        with strangers(hundred_addresses):
            await asyncio.sleep(1)
        assert (await controller.bid(2)).status.code == 0


async def test_a_handshake_that_does_not_end_is_ended_and_logged_with_its_limit(sluice: Sluice) -> None:
    def waits() -> None:
        with socket.create_connection(("127.0.0.1", GRPC_PORT), 60) as idle:
            assert idle.recv(1) == b""

    await asyncio.to_thread(inside, SWITCH, waits)
    await sluice.says(f"{CLIENTS}: 3 s")


class TestAllowedSources:
    @pytest.fixture
    def arguments(self, arguments: dict[str, str], request: pytest.FixtureRequest) -> dict[str, str]:
        return {**arguments, "--allow-from": request.param}

    @pytest.mark.parametrize("arguments", ["127.0.0.0/30"], indirect=True)
    async def test_a_controller_from_an_allowed_prefix_is_served(
        self, address: str, infrastructure: Authority
    ) -> None:
        assert await answers(address, infrastructure)

    @pytest.mark.parametrize("arguments", ["127.0.0.2"], indirect=True)
    async def test_a_controller_from_another_address_is_refused(
        self, address: str, infrastructure: Authority, sluice: Sluice
    ) -> None:
        assert not await answers(address, infrastructure)
        await sluice.says("its address is in no --allow-from")


class TestReaders:
    @pytest.fixture
    def arguments(self, arguments: dict[str, str], infrastructure: Authority) -> dict[str, str]:
        infrastructure.issue("reader", READER_NAME, CLIENT)
        return {**arguments, "--reader-name": READER_NAME}

    async def test_readers_connections_take_no_controllers_place(
        self, address: str, infrastructure: Authority
    ) -> None:
        """MANY is more than all places for clients, which are 256."""
        readers = [
            RawClient(address, infrastructure, _OWN_CONNECTION, certificate="reader") for _ in range(MANY)
        ]
        for reader in readers:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await reader.stub.Capabilities(p4r.CapabilitiesRequest(), timeout=3)
        assert await answers(address, infrastructure)
        for reader in readers:
            await reader.channel.close()

    async def test_a_readers_long_request_is_refused(self, address: str, infrastructure: Authority) -> None:
        async with RawClient(address, infrastructure, certificate="reader") as reader:
            refusal = await reader.refused(reader.bytes_call("Read")(bytes((1 << 20) + 1)))
            assert refusal[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "longer than 1048576 bytes" in refusal[1]

    async def test_a_readers_request_that_does_not_end_is_refused(
        self, address: str, infrastructure: Authority
    ) -> None:
        async def endless() -> AsyncGenerator[bytes]:
            yield b""
            await asyncio.Event().wait()

        async with RawClient(address, infrastructure, certificate="reader") as reader, asyncio.timeout(60):
            channel: Any = reader.channel
            call = channel.stream_unary("/p4.v1.P4Runtime/Read")(endless())
            refusal = await reader.refused(call)
            assert refusal == (grpc.StatusCode.DEADLINE_EXCEEDED, "the request took too long to come")


class TestMetrics:
    @pytest.fixture
    def arguments(self, arguments: dict[str, str]) -> dict[str, str]:
        return {**arguments, "--metrics": f"127.0.0.1:{METRICS_PORT}"}

    async def test_idle_connections_keep_no_scraper_out(self, sluice: Sluice) -> None:
        def scrape() -> int:
            return get(f"127.0.0.1:{METRICS_PORT}", "/metrics")[0]

        with strangers(hundred_addresses, METRICS_PORT):
            for _ in range(5):
                assert await asyncio.to_thread(inside, SWITCH, scrape) == 200


def test_a_lack_of_descriptors_is_logged_once(sluice: Sluice) -> None:
    pid = sluice.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(list(Path(f"/proc/{pid}/fd").iterdir())), limits[1]))
    opened = inside(SWITCH, lambda: socket.create_connection(("127.0.0.1", GRPC_PORT), 5))
    time.sleep(1)
    opened.close()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    assert sluice.log.read_text().count("cannot accept a connection") == 1
