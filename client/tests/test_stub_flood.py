"""A socket sends more than the stub serves: the kernel drops most of it, and other users are served in turn."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection

import dns.message
import pytest
from culvert_client.config import Endpoint
from culvert_client.core.dns_wire import QueryKind, Question
from culvert_client.core.faults import CONTROLLER, REFUSALS_KEPT, Faults
from culvert_client.platform.linux.sender_filter import LAST_LEVEL, SENDERS_AT_MOST, SenderFilter
from culvert_client.stub import listener
from culvert_client.stub.listener import Listener
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason

from .running import PLATFORM

HOSTS = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
SENT = 500
QUERY = dns.message.make_query("www.example.org", "A").to_wire()


def a_socket(family: int, host: str) -> socket.socket:
    end = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    end.bind((host, 0))
    return end


def received(receiver: socket.socket, sender: socket.socket) -> int:
    """The number of datagrams that pass, of SENT."""
    for _ in range(SENT):
        sender.sendto(b"", receiver.getsockname())
    count = 0
    while True:
        try:
            receiver.recv(1)
        except BlockingIOError:
            return count
        count += 1


@pytest.mark.parametrize(("family", "host"), HOSTS)
def test_the_kernel_drops_a_fast_senders_queries_and_no_others(family: int, host: str) -> None:
    ends = [a_socket(family, host) for _ in range(SENDERS_AT_MOST + 2)]
    receiver, *too_fast, slow = ends
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    senders = SenderFilter(receiver)
    for _ in range(LAST_LEVEL):
        for sender in too_fast:
            senders.too_fast(sender.getsockname())
        senders.end_window()
    senders.apply()
    assert all(received(receiver, it) < SENT / 4 for it in (too_fast[0], too_fast[-1]))
    assert received(receiver, slow) == SENT
    for _ in range(LAST_LEVEL):
        assert senders.is_used
        senders.end_window()
    senders.apply()
    assert not senders.is_used
    assert received(receiver, too_fast[0]) == SENT
    for end in ends:
        end.close()


class Order:
    """Serves each query at once, and remembers the order."""

    def __init__(self) -> None:
        self.served: list[bytes] = []

    def owners(self) -> Collection[int]:
        return ()

    def sort(self, query: bytes) -> Question:
        return Question(QueryKind.FORWARD)

    def resolve(self, query: bytes, question: Question, answer: Callable[[bytes | None], None]) -> None:
        self.served.append(query)
        answer(None)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="plays several users: needs root")
async def test_a_query_does_not_wait_behind_all_queries_of_another_user() -> None:
    resolver, endpoint = Order(), Endpoint("127.0.0.1", free_port())
    stub = Listener(resolver, resolver, PLATFORM.senders)
    await stub.open(endpoint)
    many = 150
    senders: list[socket.socket] = []
    try:
        # The stub reads nothing before the first await.
        for uid, query, count in ((1001, b"many", many), (1002, b"single", 1)):
            os.seteuid(uid)
            try:
                sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            finally:
                os.seteuid(0)
            senders.append(sender)
            for _ in range(count):
                sender.sendto(query, (endpoint.host, endpoint.port))
        async with asyncio.timeout(10):
            while len(resolver.served) < many + 1:  # noqa: ASYNC110  there is no event to wait for
                await asyncio.sleep(0.01)
    finally:
        await stub.close()
        for sender in senders:
            sender.close()
    assert resolver.served.index(b"single") == 1


def test_refused_names_are_forgotten_beyond_a_limit_and_other_faults_stay() -> None:
    faults = Faults()
    faults.note(CONTROLLER, CulvertError(Reason.CONTROLLER_UNREACHABLE, controller="c"), 0)
    faults.note("code.example", CulvertError(Reason.CODE_NEEDED), 0)
    names = [f"n{number}.example" for number in range(3 * REFUSALS_KEPT)]
    for name in names:
        faults.note(name, CulvertError(Reason.DNS_UPSTREAM_FAILED, name=name), 1)
    kept = [name for name in names if faults.of(name) is not None]
    assert kept == names[-REFUSALS_KEPT:]
    assert faults.of(CONTROLLER) is not None
    assert faults.of("code.example") is not None


class Later:
    """Answers when it is told to, with the query itself."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, Callable[[bytes | None], None]]] = []

    def owners(self) -> Collection[int]:
        return ()

    def sort(self, query: bytes) -> Question:
        return Question(QueryKind.FORWARD)

    def resolve(self, query: bytes, question: Question, answer: Callable[[bytes | None], None]) -> None:
        self.waiting.append((query, answer))

    async def until_waiting(self, many: int) -> None:
        while len(self.waiting) < many:  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("udp_places", [1000, 8])
async def test_a_connections_queries_are_bounded_and_each_one_read_is_answered(
    monkeypatch: pytest.MonkeyPatch, udp_places: int
) -> None:
    monkeypatch.setattr(listener, "UDP_QUERIES", udp_places)
    monkeypatch.setattr(listener, "UDP_RESERVED", 0)
    resolver, port = Later(), free_port()
    stub = Listener(resolver, resolver, PLATFORM.senders)
    await stub.open(Endpoint("127.0.0.1", port))
    sent = [number.to_bytes(2) + QUERY[2:] for number in range(3 * listener.PIPELINED)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(10):
            writer.writelines(len(it).to_bytes(2) + it for it in sent)
            writer.write_eof()
            # The connection's own place, and half of those for UDP, which are one user's.
            at_once = min(listener.PIPELINED, 1 + udp_places // 2)
            answered = list[bytes]()
            served = len(sent) if at_once == listener.PIPELINED else at_once
            while len(answered) < served:
                await resolver.until_waiting(at_once)
                assert len(resolver.waiting) == at_once
                while resolver.waiting:
                    query, answer = resolver.waiting.pop()
                    answer(query)
                    answered.append(query)
            replies = [await reader.readexactly(2 + len(QUERY)) for _ in range(served)]
            assert [it[2:] for it in replies] == answered
            assert await reader.read() == b""
            assert sorted(answered) == sent[:served]
    finally:
        writer.close()
        await stub.close()
