"""The server that devices call, with methods of a test's own and gRPC's own client."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.x509 import load_pem_x509_certificate
from culvert_agent_server import REQUEST_MAX, CallLimits, Context, Ends, Server, Shown
from culvert_proto import CulvertError, Reason
from culvert_proto.grpc_errors import from_rpc_error, status, stream, unary
from culvert_service.pki.authority import Authority, PrivateKey

PATIENCE_SECONDS = 10.0
# The responses that a stream buffers while its client does not read: HTTP/2's windows and the kernel's buffers.
UNDER_WAY = 400
BIG = bytes(100_000)
CONNECTIONS = 8
CALLS = 64
BURST = 1000


def ends(reason: Reason, **fields: object) -> Ends:
    found = status(CulvertError(reason, **fields))
    return found.code, found.message, found.SerializeToString()


LIMITS = CallLimits(
    files=1024,
    calls_per_second=BURST / 10,
    too_large=ends(Reason.BODY_TOO_LARGE, limit=REQUEST_MAX),
    too_often=ends(Reason.RATE_LIMITED, seconds=1),
)


@dataclass
class Methods:
    """Messages are bytes, and so are answers."""

    made: int = 0
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[str] = field(default_factory=list[str])
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    @unary
    async def echo(self, request: bytes, context: Context) -> bytes:
        return context.fingerprint + context.address.encode() + b" " + request

    @unary
    async def refuse(self, request: bytes, _: Context) -> bytes:
        raise CulvertError(Reason.REQUEST_INVALID, why=request.decode())

    async def fail(self, _request: bytes, _: Context) -> bytes:
        raise RuntimeError("a secret of the inside")

    async def wait(self, request: bytes, _: Context) -> bytes:
        self.asked.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return request

    @stream
    async def count(self, request: bytes, _: Context) -> AsyncIterator[bytes]:
        for number in range(int(request)):
            yield b"%d" % number
        raise CulvertError(Reason.TUNNEL_UNKNOWN)

    async def pour(self, _request: bytes, _: Context) -> AsyncGenerator[bytes]:
        try:
            while True:
                self.made += 1
                yield BIG
        finally:
            self.cancelled.set()

    def add_to(self, server: Server) -> None:
        plain = {"request_deserializer": bytes, "response_serializer": bytes}
        once = [self.echo, self.refuse, self.fail, self.wait]
        handlers: dict[str, Any] = {
            it.__name__: grpc.unary_unary_rpc_method_handler(it, **plain)  # pyright: ignore[reportArgumentType]
            for it in once
        }
        for many in (self.count, self.pour):
            handlers[many.__name__] = grpc.unary_stream_rpc_method_handler(many, **plain)  # pyright: ignore[reportArgumentType]
        server.add_registered_method_handlers("test", handlers)

    @contextmanager
    def around(self, method: str, context: Context) -> Generator[None]:
        self.seen.append(f"{method} {context.address}")
        yield


class Place:
    def __init__(self, folder: Path) -> None:
        self.infrastructure = Authority.load(folder, "infrastructure")
        self.devices = Authority.load(folder, "device")
        self.methods = Methods()
        self.server: Server

    def shown(self) -> Shown:
        own = self.infrastructure.issue_server("test", ["localhost", "127.0.0.1"])
        return Shown(own.certificate.pem, own.key_pem, self.devices.pem)

    def channel(self, device: PrivateKey, trusted: bytes = b"") -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(
            trusted or self.infrastructure.pem, device.key_pem, device.certificate.pem
        )
        options = [("grpc.use_local_subchannel_pool", 1)]
        return grpc.aio.secure_channel(f"127.0.0.1:{self.server.port}", credentials, options=options)

    async def ask(self, channel: Any, method: str, request: bytes = b"", seconds: float = 10.0) -> bytes:
        return await channel.unary_unary(f"/test/{method}")(request, timeout=seconds)


@asynccontextmanager
async def serving(folder: Path, host: str = "127.0.0.1") -> AsyncGenerator[Place]:
    place = Place(folder)
    server = Server(host, 0, place.shown(), LIMITS, handshake_seconds=1.0, around=[place.methods.around])
    place.server = server
    place.methods.add_to(server)
    server.start()
    try:
        yield place
    finally:
        await server.stop(0.1)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncGenerator[Place]:
    async with serving(tmp_path) as place:
        yield place


@pytest.fixture
def device(place: Place) -> PrivateKey:
    # Any certificate of that CA: which client it is for is not the server's to know.
    return place.devices.issue_p4runtime_client()


@pytest.fixture
async def channel(place: Place, device: PrivateKey) -> AsyncGenerator[Any]:
    async with place.channel(device) as channel:
        yield channel


async def _all(stream: Any) -> None:
    while True:
        await stream.read()


async def code(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await call
    return ended.value.code()


async def reason(call: Any) -> Reason:
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await call
    return from_rpc_error(ended.value, peer="x").reason


async def test_a_call_has_its_answer_and_its_caller(place: Place, device: PrivateKey, channel: Any) -> None:
    certificate = load_pem_x509_certificate(device.certificate.pem)
    told = certificate.fingerprint(hashes.SHA256()) + b"127.0.0.1 "
    assert await place.ask(channel, "echo", b"hello") == told + b"hello"
    assert await place.ask(channel, "echo") == told
    big = bytes(10_000)
    assert await place.ask(channel, "echo", big) == told + big
    assert place.methods.seen == ["test/echo 127.0.0.1"] * 3


async def test_an_ipv4_peer_of_an_ipv6_listener_has_an_ipv4_address(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, "::") as place,
        place.channel(place.devices.issue_p4runtime_client()) as channel,
    ):
        assert (await place.ask(channel, "echo"))[32:] == b"127.0.0.1 "


async def test_calls_at_once_are_not_mixed_up(place: Place, channel: Any) -> None:
    requests = [b"%d" % number for number in range(1000)]
    answers = await asyncio.gather(*(place.ask(channel, "echo", one) for one in requests))
    assert [answer[32:].split()[1] for answer in answers] == requests


async def test_a_refusal_is_typed_and_a_fault_says_nothing_of_the_inside(place: Place, channel: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await place.ask(channel, "refuse", "ä\n%".encode())
    error = from_rpc_error(refused.value, peer="x")
    assert error.reason is Reason.REQUEST_INVALID
    assert "ä\n%" in error.message
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await place.ask(channel, "fail")
    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.INTERNAL, "")
    assert await code(place.ask(channel, "absent")) is grpc.StatusCode.UNIMPLEMENTED


async def test_a_stream_ends_with_its_error(channel: Any) -> None:
    call = channel.unary_stream("/test/count")(b"300")
    assert [await call.read() for _ in range(300)] == [b"%d" % number for number in range(300)]
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await call.read()
    assert from_rpc_error(ended.value, peer="x").reason is Reason.TUNNEL_UNKNOWN


async def test_an_unread_stream_stops_producing(place: Place, channel: Any) -> None:
    call = channel.unary_stream("/test/pour")(b"x")
    await call.read()
    before = -1
    async with asyncio.timeout(PATIENCE_SECONDS):
        while place.methods.made != before:
            before = place.methods.made
            await asyncio.sleep(0.3)
    assert before < UNDER_WAY
    for _ in range(before):
        await call.read()
    assert place.methods.made > before
    call.cancel()


async def test_a_client_that_disconnects_ends_the_work_of_its_request(
    place: Place, device: PrivateKey, channel: Any
) -> None:
    methods = place.methods
    assert await code(place.ask(channel, "wait", seconds=0.3)) is grpc.StatusCode.DEADLINE_EXCEEDED
    async with asyncio.timeout(PATIENCE_SECONDS):
        await methods.cancelled.wait()
    methods.cancelled.clear()
    async with place.channel(device) as other:
        await other.unary_stream("/test/pour")(b"x").read()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await methods.cancelled.wait()
    await place.ask(channel, "echo")


async def test_connections_without_a_valid_certificate_are_refused(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stranger = Authority.load(other, "device").issue_p4runtime_client()
    async with place.channel(stranger) as channel:
        assert await code(place.ask(channel, "echo")) is grpc.StatusCode.UNAVAILABLE
    bare = grpc.ssl_channel_credentials(place.infrastructure.pem)
    async with grpc.aio.secure_channel(f"127.0.0.1:{place.server.port}", bare) as channel:
        assert await code(place.ask(channel, "echo")) is grpc.StatusCode.UNAVAILABLE
    async with grpc.aio.insecure_channel(f"127.0.0.1:{place.server.port}") as channel:
        assert await code(place.ask(channel, "echo")) is grpc.StatusCode.UNAVAILABLE
    assert not place.methods.seen


@pytest.mark.parametrize("messages", [[], [b"one", b"two"]])
async def test_a_unary_call_with_zero_or_two_messages_is_refused(
    place: Place, channel: Any, messages: list[bytes]
) -> None:
    call = channel.stream_unary("/test/echo")(iter(messages))
    assert await code(call) is grpc.StatusCode.INTERNAL
    assert not place.methods.seen


async def test_a_compressed_or_too_long_message_is_refused(place: Place, channel: Any) -> None:
    compressed = channel.unary_unary("/test/echo")(BIG, compression=grpc.Compression.Gzip)
    assert await code(compressed) is grpc.StatusCode.UNIMPLEMENTED
    assert await reason(place.ask(channel, "echo", bytes(REQUEST_MAX + 1))) is Reason.BODY_TOO_LARGE
    assert not place.methods.seen
    long = bytes(REQUEST_MAX)
    assert (await place.ask(channel, "echo", long)).endswith(long)


async def test_new_connections_get_the_replaced_certificates(
    place: Place, device: PrivateKey, channel: Any, tmp_path: Path
) -> None:
    await place.ask(channel, "echo")
    new = tmp_path / "new"
    new.mkdir()
    place.infrastructure, old = Authority.load(new, "infrastructure"), place.infrastructure
    place.server.show(place.shown())
    with pytest.raises(ValueError, match="PEM"):
        place.server.show(Shown(b"", b"", b""))
    await place.ask(channel, "echo")
    async with place.channel(device) as fresh:
        await place.ask(fresh, "echo")
    async with place.channel(device, old.pem) as late:
        assert await code(place.ask(late, "echo")) is grpc.StatusCode.UNAVAILABLE


async def test_a_bad_certificate_or_a_used_port_raises_at_start(place: Place) -> None:
    with pytest.raises(OSError, match="in use"):
        Server("127.0.0.1", place.server.port, place.shown(), LIMITS, handshake_seconds=1.0)
    with pytest.raises(ValueError, match="PEM"):
        Server("127.0.0.1", 0, Shown(b"x", b"x", b"x"), LIMITS, handshake_seconds=1.0)


async def test_calls_under_way_have_their_time_when_it_stops(tmp_path: Path) -> None:
    async with serving(tmp_path) as place, place.channel(place.devices.issue_p4runtime_client()) as channel:
        finishes = asyncio.create_task(place.ask(channel, "wait", b"done"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await place.methods.asked.wait()
        stopping = asyncio.create_task(place.server.stop(PATIENCE_SECONDS))
        await asyncio.sleep(0.1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", place.server.port))
        place.methods.release.set()
        assert await finishes == b"done"
        await stopping


async def test_calls_that_last_are_cut_when_it_stops(tmp_path: Path) -> None:
    async with serving(tmp_path) as place, place.channel(place.devices.issue_p4runtime_client()) as channel:
        lasts = asyncio.create_task(place.ask(channel, "wait"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await place.methods.asked.wait()
        await place.server.stop(0.1)
        assert place.methods.cancelled.is_set()
        assert await code(lasts) is grpc.StatusCode.UNAVAILABLE


async def test_a_stream_that_waits_keeps_no_message(place: Place, channel: Any) -> None:
    class Kept(bytes):
        pass

    @stream
    async def once(_self: object, _request: bytes, _: Context) -> AsyncIterator[bytes]:
        yield Kept(b"x")
        await asyncio.Event().wait()

    plain = {"request_deserializer": bytes, "response_serializer": bytes}
    handler = grpc.unary_stream_rpc_method_handler(lambda *it: once(None, *it), **plain)  # pyright: ignore
    place.server.add_registered_method_handlers("test", {"once": handler})  # pyright: ignore
    call = channel.unary_stream("/test/once")(b"")
    assert await call.read() == b"x"
    assert not [it for it in gc.get_objects() if isinstance(it, Kept)]
    call.cancel()


async def test_too_many_connections_of_one_certificate_close_the_oldest(
    place: Place, device: PrivateKey, channel: Any
) -> None:
    waits = asyncio.create_task(place.ask(channel, "wait", seconds=60))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await place.methods.asked.wait()
    more = [place.channel(device) for _ in range(CONNECTIONS)]
    for one in more:
        await place.ask(one, "echo")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await code(waits) is grpc.StatusCode.UNAVAILABLE
    for one in more:
        await place.ask(one, "echo")
        await one.close()


async def test_a_devices_concurrent_calls_are_limited_over_all_connections(
    place: Place, device: PrivateKey
) -> None:
    channels: list[Any] = [place.channel(device) for _ in range(2)]
    streams = [one.unary_stream("/test/pour")(b"x") for one in channels for _ in range(CALLS // 2)]
    for one in streams:
        await one.read()
    assert await reason(place.ask(channels[0], "echo")) is Reason.RATE_LIMITED
    async with place.channel(place.devices.issue_p4runtime_client()) as other:
        await place.ask(other, "echo")
    for one in channels:
        await one.close()


async def test_calls_over_the_rate_do_not_reach_python_but_are_counted(
    tmp_path: Path,
) -> None:
    told: list[tuple[bytes, str, int]] = []

    async def limited(fingerprint: bytes, address: str, count: int) -> None:
        told.append((fingerprint, address, count))

    place = Place(tmp_path)
    few = replace(LIMITS, calls_per_second=0.5)
    place.server = Server("127.0.0.1", 0, place.shown(), few, handshake_seconds=1.0)
    place.methods.add_to(place.server)
    place.server.start(limited)
    device = place.devices.issue_p4runtime_client()
    async with place.channel(device) as channel:
        for _ in range(5):
            await place.ask(channel, "echo")
        for _ in range(3):
            assert await reason(place.ask(channel, "refuse", b"x")) is Reason.RATE_LIMITED
        async with asyncio.timeout(PATIENCE_SECONDS):
            while sum(count for _, _, count in told) < 3:  # noqa: ASYNC110  there is no event to wait for
                await asyncio.sleep(0.05)
    certificate = load_pem_x509_certificate(device.certificate.pem)
    assert {(one, address) for one, address, _ in told} == {
        (certificate.fingerprint(hashes.SHA256()), "127.0.0.1")
    }
    await place.server.stop(0.1)


@pytest.mark.slow
async def test_a_denied_certificate_may_hear_why_or_fails_in_the_handshake(
    place: Place, device: PrivateKey, channel: Any
) -> None:
    await place.ask(channel, "echo")
    fingerprint = load_pem_x509_certificate(device.certificate.pem).fingerprint(hashes.SHA256())
    place.server.deny([fingerprint])
    lasting = channel.unary_stream("/test/pour")(b"x")
    await lasting.read()
    # The server soon closes the open connection.
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await code(_all(lasting)) is grpc.StatusCode.UNAVAILABLE
    refused = 0
    for _ in range(20):
        async with place.channel(device) as late:
            try:
                await place.ask(late, "echo", seconds=0.5)
            except grpc.aio.AioRpcError:
                refused += 1
    assert refused >= 10
    async with place.channel(place.devices.issue_p4runtime_client()) as other:
        await place.ask(other, "echo")


async def test_messages_over_the_limit_are_refused_and_reach_no_method(
    place: Place, device: PrivateKey
) -> None:
    """Seen from the device: the flow-control windows stop a message that is too long."""
    async with place.channel(device) as channel:
        calls = [place.ask(channel, "echo", bytes(1 << 20)) for _ in range(CALLS)]
        reasons = await asyncio.gather(*(reason(call) for call in calls))
    assert set(reasons) <= {Reason.BODY_TOO_LARGE}
    assert not place.methods.seen
