"""Connections without credentials: their number and time are limited, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import re
import resource
import socket
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from culvert_lab.free_port import free_port
from culvert_service import servers

from .conftest import PATIENCE_SECONDS, World, running, settings_in
from .test_live import watching

# More connections than one address may have.
SILENT = 300
OF_AN_ADDRESS = 64
CUT_OFF_SECONDS = 5.0
PROBLEM = b"content-type: application/problem+json"


@pytest.fixture
async def hasty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str) -> AsyncGenerator[World]:
    monkeypatch.setattr(servers, "HANDSHAKE_SECONDS", CUT_OFF_SECONDS)
    monkeypatch.setattr(servers, "REQUEST_SECONDS", CUT_OFF_SECONDS)
    async with running(settings_in(tmp_path, database_url=database_url)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        yield world


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(60):
            while await reader.read(4096):
                pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def address(listen: str) -> tuple[str, int]:
    host, port = listen.rsplit(":", 1)
    return host, int(port)


async def connected(world: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the REST API after the TLS handshake, without a request."""
    tls = ssl.create_default_context(cafile=str(world.settings.state_dir / "infrastructure-ca.pem"))
    host, port = address(world.settings.rest_listen)
    return await asyncio.open_connection(host, port, ssl=tls)


async def answer_to(world: World, request: bytes) -> bytes:
    """Everything that the server sends back."""
    reader, writer = await connected(world)
    writer.write(request)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await reader.read()
    finally:
        writer.close()


@asynccontextmanager
async def silent(
    listen: str, count: int, source: str = "127.0.0.1"
) -> AsyncGenerator[list[asyncio.StreamReader]]:
    host, port = address(listen)
    connections = [await asyncio.open_connection(host, port, local_addr=(source, 0)) for _ in range(count)]
    try:
        yield [reader for reader, _ in connections]
    finally:
        for _, writer in connections:
            writer.close()


@contextmanager
def few_files(count: int) -> Generator[None]:
    """The controller takes this limit of descriptors; the real limit of this process stays."""
    before = servers._file_limit
    servers._file_limit = lambda: count
    try:
        yield
    finally:
        servers._file_limit = before


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def memory_mib() -> float:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


@pytest.mark.slow
async def test_silent_connections_keep_no_device_out_and_are_cut_off(hasty: World) -> None:
    host, port = address(hasty.settings.agent_listen)
    silent = [await asyncio.open_connection(host, port) for _ in range(SILENT)]
    for _, writer in silent[::2]:
        # A record that says it is a handshake of 512 bytes, and no more.
        writer.write(bytes.fromhex("1603010200"))
    device = await hasty.enrol()
    await device.prove()
    assert all(await asyncio.gather(*(ended(reader) for reader, _ in silent)))
    await device.prove()
    for _, writer in silent:
        writer.close()


async def test_the_oldest_silent_connection_of_an_address_makes_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str
) -> None:
    # With these times, only the limit of connections can close a connection.
    monkeypatch.setattr(servers, "HANDSHAKE_SECONDS", 600.0)
    monkeypatch.setattr(servers, "REQUEST_SECONDS", 600.0)
    async with (
        running(settings_in(tmp_path, database_url=database_url)) as world,
        silent(world.settings.rest_listen, SILENT) as readers,
    ):
        assert (await world.admin.get("/api/v1/users")).status_code == 200
        oldest = readers[: SILENT - OF_AN_ADDRESS]
        assert all(await asyncio.gather(*(ended(reader) for reader in oldest)))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await readers[-1].read(1)


async def test_an_open_stream_is_not_closed_to_make_room(world: World) -> None:
    async with watching(world, "gateways") as stream:
        await stream.next()
        async with silent(world.settings.rest_listen, SILENT):
            await world.add_gateway("gw-berlin", free_port())
            await stream.until("changed", "gw-berlin")


async def test_connections_of_strangers_take_a_share_of_the_descriptors(
    tmp_path: Path, database_url: str
) -> None:
    with few_files(256):
        async with running(settings_in(tmp_path, database_url=database_url)) as world:
            await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
            before = open_files()
            async with silent(world.settings.rest_listen, 200), silent(world.settings.agent_listen, 200):
                device = await world.enrol()
                await device.prove()
                # This process also has the client ends of the 400 connections.
                held = open_files() - before - 400
                assert held < 256 // 2


async def test_a_flood_of_connections_is_one_line_of_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with silent(world.settings.rest_listen, SILENT):
        assert (await world.anyone.get("/healthz")).status_code == 200
    lines = [it for it in caplog.records if it.getMessage() == "connection limit reached"]
    assert [(vars(it)["port"], vars(it)["count"]) for it in lines] == [("rest", 1)]


@pytest.fixture(params=["as it is", "locked"])
def memory(request: pytest.FixtureRequest) -> Generator[None]:
    """This process's memory. The controller locks its own where it may, and the C library keeps locked pages."""
    libc = ctypes.CDLL(None, use_errno=True)
    current_future_on_fault = 1 | 2 | 4
    if request.param == "locked" and libc.mlockall(current_future_on_fault) != 0:
        pytest.skip("this user may not lock memory")
    yield
    libc.munlockall()


@pytest.mark.long
@pytest.mark.slow
async def test_memory_comes_back_after_a_flood(memory: None, world: World) -> None:
    await world.rest("GET", "/users")
    gc.collect()
    before = memory_mib()
    host, port = address(world.settings.rest_listen)
    for number in range(1, 11):
        async with silent(world.settings.rest_listen, SILENT, f"127.0.1.{number}"):
            pass
        body = b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Length: 67108864\r\n\r\n" + bytes(
            1 << 20
        )
        tls = ssl.create_default_context(cafile=str(world.settings.state_dir / "infrastructure-ca.pem"))
        for _ in range(10):
            source = (f"127.0.2.{number}", 0)
            reader, writer = await asyncio.open_connection(host, port, ssl=tls, local_addr=source)
            writer.write(body)
            with contextlib.suppress(ConnectionError):
                assert b"HTTP/1.1 4" in (await reader.read(100))
            writer.close()
    gc.collect()
    assert memory_mib() < 1.2 * before


@pytest.mark.slow
@pytest.mark.parametrize(
    "owed",
    [
        b"",
        b"GET /api/v1/ca HTTP/1.1\r\nHost:",
        b"POST /api/v1/enrolments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    ],
)
async def test_a_request_that_does_not_come_to_its_end_is_cut_off(hasty: World, owed: bytes) -> None:
    reader, writer = await connected(hasty)
    writer.write(owed)
    assert await ended(reader)
    writer.close()
    assert (await hasty.anyone.get("/api/v1/ca")).status_code == 200


@pytest.mark.slow
async def test_an_answer_may_take_longer_than_a_request(hasty: World) -> None:
    async with watching(hasty, "gateways") as stream:
        await stream.next()
        await asyncio.sleep(2 * CUT_OFF_SECONDS)
        await hasty.add_gateway("gw-berlin", free_port())
        await stream.until("changed", "gw-berlin")


GARBAGE = [
    b"\0\1\2\3\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    b"GET / HTTP/7.3\r\nHost: x\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    b"GET / HTTP/1.1\r\nHost: x\r\nA: " + bytes(1) + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 13_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: a\r\n" * 100 + b"\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
]


async def test_an_invalid_request_gets_a_typed_refusal(world: World) -> None:
    for garbage in GARBAGE:
        head, _, body = (await answer_to(world, garbage)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 "), garbage
        assert PROBLEM in head.lower()
        problem: dict[str, Any] = json.loads(body)
        assert (problem["reason"], problem["status"]) == ("REQUEST_MALFORMED", 400)


async def test_answers_say_nothing_of_the_server_and_keep_the_connection(world: World) -> None:
    reader, writer = await connected(world)
    for _ in range(2):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200 ")
        assert b"\r\nserver:" not in head
        assert b"admitted" not in head
        length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head)
        assert length
        await reader.readexactly(int(length[1]))
    writer.close()
    admitted = await world.admin.get("/api/v1/users")
    assert "culvert-admitted" not in admitted.headers


async def test_a_client_that_is_still_sending_can_read_the_answer(world: World) -> None:
    for path in ("POST /api/v1/users", "GET /openapi.json", "TRACE /"):
        await _reads_the_answer(world, path)


async def _reads_the_answer(world: World, path: str) -> None:
    head = (
        f"{path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {1 << 20}\r\n\r\n"
    )
    answer = await answer_to(world, head.encode() + bytes(512 << 10))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 ")
    assert isinstance(json.loads(body), dict)


async def test_a_client_that_disconnects_ends_the_work_of_its_request(world: World) -> None:
    token = world.admin.headers["Authorization"].encode()
    before = asyncio.all_tasks()
    reader, writer = await connected(world)
    writer.write(
        b"GET /api/v1/events?view=gateways HTTP/1.1\r\nHost: x\r\nAuthorization: " + token + b"\r\n\r\n"
    )
    assert b"snapshot" in await reader.readuntil(b"snapshot")
    serving = [it for it in asyncio.all_tasks() - before if "run_asgi" in str(it.get_coro())]
    assert serving
    writer.transport.abort()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.wait(serving)


_CONNECTS = """
import socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print("connected", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
async def test_without_descriptors_the_front_pauses_and_then_accepts_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[logging.LogRecord]:
        return [it for it in caplog.records if it.getMessage().startswith("connections not accepted")]

    assert (await world.admin.get("/api/v1/users")).status_code == 200
    port, (soft, hard) = address(world.settings.rest_listen)[1], resource.getrlimit(resource.RLIMIT_NOFILE)
    stranger = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _CONNECTS, str(port), "60"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert stranger.stdin is not None
    assert stranger.stdout is not None
    began = time.monotonic()
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 4, hard))
    try:
        assert await stranger.stdout.readline() == b"connected\n"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not told():  # noqa: ASYNC110  there is no event to wait for
                await asyncio.sleep(0.01)
        # Time for many attempts, if there were no pause between two of them.
        await asyncio.sleep(1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        stranger.stdin.close()
        await stranger.wait()
    reader, writer = await connected(world)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b"200 OK" in await reader.read()
    writer.close()
    async with asyncio.timeout(90):
        while not told()[-1].getMessage().endswith("has ended"):  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.1)
    assert len(told()) <= 3
    attempts = sum(vars(record)["count"] for record in told())
    assert attempts <= 10 * (time.monotonic() - began) + 1


@pytest.mark.long
@pytest.mark.slow
async def test_a_client_that_reads_nothing_of_an_answer_is_cut_off(world: World) -> None:
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, address(world.settings.rest_listen))
    tls = ssl.create_default_context(cafile=str(world.settings.state_dir / "infrastructure-ca.pem"))
    reader, writer = await asyncio.open_connection(
        sock=plain, ssl=tls, server_hostname="127.0.0.1", limit=4096
    )
    local = plain.getsockname()[1]

    def open_at_the_server() -> bool:
        """A socket that no process has any more is listed with inode 0."""
        rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return any(row[2].endswith(f":{local:04X}") and row[9] != "0" for row in rows)

    writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 60)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    # The transport reads no more than its limit while nobody reads here.
    assert open_at_the_server()
    async with asyncio.timeout(90):
        while open_at_the_server():  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.1)
    writer.transport.abort()


def test_as_many_connections_as_the_process_may_have() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 1024), before[1]))
        servers.raise_file_limit()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert hard == before[1]
        assert soft == min(hard, 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
