"""The stub's two sides on real sockets: hostile name servers, floods of garbage, and BIND."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Generator
from pathlib import Path

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import pytest
from culvert_client.config import Endpoint
from culvert_client.core import dns_wire
from culvert_client.core.dns_wire import Kind, Question
from culvert_client.stub import listener
from culvert_client.stub.socket_owner import SocketOwner
from culvert_client.stub.upstream import Upstream

from .name_server import Records, from_records, name_server, respond, truncated
from .running import free_port, running

WIKI = "wiki.corp.example"
RECORDS: Records = {(WIKI, "A"): ["10.20.0.10"]}
QUERY = dns.message.make_query(WIKI, "A").to_wire()


def addresses(reply: bytes | None) -> set[str]:
    assert reply is not None
    return {str(address) for address in dns_wire.addresses_in(reply) or ()}


async def test_forged_answers_are_passed_over_and_the_real_one_is_taken() -> None:
    forged: Records = {(WIKI, "A"): ["203.0.113.66"]}
    other = dns.message.make_query("other.corp.example", "A").to_wire()

    def answer(query: bytes) -> list[bytes]:
        wrong_id = dns_wire.with_id(respond(query, forged), dns_wire.id_of(query) ^ 1)
        wrong_name = dns_wire.with_id(respond(other, forged), dns_wire.id_of(query))
        return [b"", b"junk", query, wrong_id, wrong_name, respond(query, RECORDS)]

    async with name_server(answer) as (endpoint, _):
        assert addresses(await Upstream(endpoint).exchange(QUERY)) == {"10.20.0.10"}


async def test_ids_are_our_own_and_the_asker_gets_its_own_back() -> None:
    async with name_server(from_records(RECORDS)) as (endpoint, asked):
        upstream = Upstream(endpoint)
        replies = [await upstream.exchange(dns_wire.with_id(QUERY, 7)) for _ in range(8)]
    assert all(reply is not None and dns_wire.id_of(reply) == 7 for reply in replies)
    assert len({dns_wire.id_of(query) for query in asked}) > 4
    assert all(query[2:] == QUERY[2:] for query in asked)


async def test_a_truncated_answer_is_fetched_whole_over_tcp() -> None:
    async with name_server(lambda query: [truncated(query)], lambda query: respond(query, RECORDS)) as (
        endpoint,
        _,
    ):
        assert addresses(await Upstream(endpoint).exchange(QUERY)) == {"10.20.0.10"}
    async with name_server(lambda query: [truncated(query)]) as (endpoint, _):
        assert await Upstream(endpoint).exchange(QUERY) is None


async def test_a_lost_query_is_sent_again_and_silence_ends() -> None:
    dropped: list[bytes] = []

    def answer(query: bytes) -> list[bytes]:
        dropped.append(query)
        return [respond(query, RECORDS)] if len(dropped) > 1 else []

    async with name_server(answer) as (endpoint, _):
        assert addresses(await Upstream(endpoint).exchange(QUERY)) == {"10.20.0.10"}
    assert await Upstream(Endpoint("127.0.0.1", free_port())).exchange(QUERY) is None


async def test_a_silent_name_server_is_told_as_such(tmp_path: Path) -> None:
    async with name_server(lambda _: []) as (endpoint, _), running(tmp_path, endpoint) as daemon:
        started = time.monotonic()
        answer = await daemon.ask("www.example.org")
        assert answer.rcode() == dns.rcode.SERVFAIL
        assert time.monotonic() - started < 2.5
        assert b"did not answer" in answer.to_wire()


async def test_garbage_on_the_port_harms_nobody(tmp_path: Path) -> None:
    noise = random.Random(1)  # noqa: S311 (noise)
    async with name_server(from_records(RECORDS)) as (endpoint, _), running(tmp_path, endpoint) as daemon:
        listen = daemon.settings.dns_listen
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(500):
                sender.sendto(noise.randbytes(noise.randrange(0, 80)), (listen.host, listen.port))
            for cut in range(len(QUERY)):
                sender.sendto(QUERY[:cut], (listen.host, listen.port))
        for piece in (b"", b"\0", b"\0\0", b"\0\5junk!", b"\xff\xff" + QUERY):
            _, writer = await asyncio.open_connection(listen.host, listen.port)
            writer.write(piece)
            writer.close()
        answer = await daemon.ask(WIKI)
        assert answer.rcode() == dns.rcode.NOERROR
        assert answer.answer


class _Failing:
    """Answers with the query itself, after so many faults."""

    def __init__(self, faults: int, kind: Kind) -> None:
        self.faults = faults
        self._kind = kind

    def sort(self, query: bytes) -> Question:
        return Question(self._kind, WIKI)

    def owners(self) -> Collection[int]:
        return ()

    def resolve(self, query: bytes, question: Question, answer: Callable[[bytes | None], None]) -> None:
        self.faults -= 1
        if self.faults >= 0:
            raise RuntimeError("a fault of the resolver")
        answer(query)


@pytest.mark.parametrize("kind", [Kind.FORWARD, Kind.HOLD])
async def test_a_fault_of_the_resolver_takes_no_place_for_good(
    monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    places = 4
    for name in ("UDP_QUERIES", "WAITING_FOR_TUNNELS"):
        monkeypatch.setattr(listener, name, places)
    for name in ("UDP_RESERVED", "WAITING_RESERVED"):
        monkeypatch.setattr(listener, name, 0)
    loop, faults = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda _, context: faults.append(str(context["exception"])))
    resolver, port = _Failing(2 * places, kind), free_port()
    stub = listener.Listener(resolver, resolver)
    await stub.open(Endpoint("127.0.0.1", port))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.connect(("127.0.0.1", port))
            async with asyncio.timeout(10):
                for count in range(1, 2 * places + 1):
                    sender.send(QUERY)
                    while len(faults) < count:  # noqa: ASYNC110  there is no event to wait for
                        await asyncio.sleep(0.01)
                sender.send(QUERY)
                assert await loop.sock_recv(sender, 512) == QUERY
    finally:
        await stub.close()
        loop.set_exception_handler(None)
    assert faults == ["a fault of the resolver"] * (2 * places)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_the_kernel_tells_the_uid_of_the_socket_that_asks(
    family: int, host: str, kind: socket.SocketKind
) -> None:
    owner = SocketOwner()
    with socket.socket(family, kind) as own, socket.socket(family, kind) as asker:
        own.bind((host, 0))
        if kind == socket.SOCK_STREAM:
            own.listen()
        asker.connect(own.getsockname())
        ends = asker.getsockname()[:2], own.getsockname()[:2]
        assert owner.uid_of(family, kind, *ends) == os.geteuid()
    if kind == socket.SOCK_DGRAM:
        assert owner.uid_of(family, kind, *ends) is None
    owner.close()
    assert owner.uid_of(family, kind, *ends) is None


ZONE = f"""$TTL 60
@ SOA ns hostmaster 1 3600 600 86400 60
@ NS ns
ns A 127.0.0.1
wiki A 10.20.0.10
wiki TXT "ipsec-tunneling:yes"
www A 203.0.113.80
big TXT {" ".join(f'"{number:0200}"' for number in range(12))}
"""


@pytest.fixture
def bind(tmp_path: Path) -> Generator[Endpoint]:
    named = shutil.which("named")
    assert named is not None, "BIND 9 is not installed: run make setup-test"
    port = free_port()
    (tmp_path / "zone").write_text(ZONE)
    (tmp_path / "named.conf").write_text(f"""
        options {{ directory "{tmp_path}"; pid-file none; session-keyfile none; recursion no; dnssec-validation no;
                   listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; }};
        controls {{ }};
        zone "corp.example" {{ type primary; file "zone"; }};
    """)
    with subprocess.Popen([named, "-g", "-c", tmp_path / "named.conf"], stderr=subprocess.DEVNULL) as process:
        try:
            # It listens before it has read its zones.
            while not _serves(port):
                assert process.poll() is None
                time.sleep(0.1)
            yield Endpoint("127.0.0.1", port)
        finally:
            process.terminate()


def _serves(port: int) -> bool:
    query = dns.message.make_query("corp.example", "SOA")
    try:
        return bool(dns.query.udp(query, "127.0.0.1", timeout=1, port=port).answer)
    except (dns.exception.DNSException, OSError):
        return False


@pytest.mark.slow
async def test_bind_is_asked_and_its_answers_pass_untouched(bind: Endpoint, tmp_path: Path) -> None:
    upstream = Upstream(bind)
    assert await upstream.says_tunnel(WIKI)
    assert not await upstream.says_tunnel("www.corp.example")
    assert not await upstream.says_tunnel("absent.corp.example")
    async with running(tmp_path, bind) as daemon:
        listen = daemon.settings.dns_listen
        for name, kind in (
            (WIKI, "A"),
            (WIKI, "HTTPS"),
            ("absent.corp.example", "A"),
            ("corp.example", "SOA"),
        ):
            query = dns.message.make_query(name, kind)
            direct = await dns.asyncquery.udp(query, bind.host, timeout=5, port=bind.port)
            through = await dns.asyncquery.udp(query, listen.host, timeout=5, port=listen.port)
            assert through.to_wire() == direct.to_wire()


@pytest.mark.slow
async def test_an_answer_too_long_for_udp_comes_over_tcp_as_from_bind(bind: Endpoint, tmp_path: Path) -> None:
    async with running(tmp_path, bind) as daemon:
        short = await daemon.ask("big.corp.example", "TXT")
        assert short.flags & dns.flags.TC
        whole = await daemon.ask("big.corp.example", "TXT", tcp=True)
        assert whole.answer[0].to_text().count('" "') == 11
