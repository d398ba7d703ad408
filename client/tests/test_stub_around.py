"""The stub between programs that close their half of a connection and resolvers that lead back to it."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from pathlib import Path

import dns.asyncquery
import dns.message
import dns.rcode
import dns.rrset
import pytest
from culvert_client.config import Endpoint
from culvert_client.core import dns_wire
from culvert_client.core.dns_wire import CANARY, addresses_in
from culvert_client.stub.upstream import Upstream
from culvert_lab.free_port import free_port

from .name_server import Records, from_records, name_server, respond
from .running import Running, running

ELSEWHERE = "www.example.org"
RECORDS: Records = {(ELSEWHERE, "A"): ["203.0.113.80"]}


async def test_a_program_that_closes_its_half_after_the_query_is_answered(tmp_path: Path) -> None:
    query = dns.message.make_query(ELSEWHERE, "A").to_wire()
    async with (
        name_server(from_records(RECORDS)) as (upstream, _),
        running(tmp_path, upstream) as daemon,
        asyncio.timeout(10),
    ):
        listen = daemon.settings.dns_listen
        reader, writer = await asyncio.open_connection(listen.host, listen.port)
        writer.write((len(query).to_bytes(2) + query) * 2)
        writer.write_eof()
        for _ in range(2):
            reply = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
            assert addresses_in(reply) == {ip_address("203.0.113.80")}
        assert await reader.read() == b""
        writer.close()


async def test_a_network_leads_no_program_past_the_stub(tmp_path: Path) -> None:
    another_way = dns.message.make_query("_dns.resolver.arpa", "SVCB")

    def answer(query: bytes) -> list[bytes]:
        reply = dns.message.make_response(dns.message.from_wire(query))
        way = "1 dns.example. alpn=dot port=853 ipv4hint=203.0.113.53"
        reply.answer.append(dns.rrset.from_text(reply.question[0].name, 60, "IN", "SVCB", way))
        return [reply.to_wire()]

    async with name_server(answer) as (upstream, asked), running(tmp_path, upstream) as daemon:
        listen = daemon.settings.dns_listen
        for ask in (dns.asyncquery.udp, dns.asyncquery.tcp):
            reply = await ask(another_way, listen.host, timeout=5, port=listen.port)
            assert (reply.rcode(), reply.answer, reply.additional) == (dns.rcode.NOERROR, [], [])
    assert not any(b"resolver" in it for it in asked)


@pytest.mark.slow
async def test_a_query_overtakes_those_on_its_connection_that_wait(tmp_path: Path) -> None:
    slow, quick = (dns.message.make_query(it, "A").to_wire() for it in ("slow.example.org", ELSEWHERE))
    waiting, records = list[bytes](), from_records(RECORDS)

    def answer(query: bytes) -> list[bytes]:
        if b"slow" not in query:
            return records(query)
        waiting.append(query)
        return []

    async with (
        name_server(answer) as (upstream, _),
        running(tmp_path, upstream) as daemon,
        asyncio.timeout(20),
    ):
        listen = daemon.settings.dns_listen
        reader, writer = await asyncio.open_connection(listen.host, listen.port)
        for number, query in enumerate((slow, quick)):
            writer.write(len(query).to_bytes(2) + dns_wire.with_id(query, number))
        writer.write_eof()
        replies = [await reader.readexactly(int.from_bytes(await reader.readexactly(2))) for _ in range(2)]
        assert await reader.read() == b""
        writer.close()
    assert waiting
    assert [(dns_wire.id_of(it), dns_wire.rcode_of(it)) for it in replies] == [
        (1, dns.rcode.NOERROR),
        (0, dns.rcode.SERVFAIL),
    ]


async def _ends(*daemons: Running) -> None:
    """No query goes round any more."""
    async with asyncio.timeout(20):
        while any(it.daemon.upstream.under_way for it in daemons):  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.1)


async def _asked_in_a_loop(daemon: Running, *others: Running) -> None:
    """The name has no answer, and the asker is told so; what the stub knows itself it says at once."""
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*(daemon.ask(ELSEWHERE, kind) for kind in ("A", "AAAA", "A")))
    assert [it.rcode() for it in answers] == [dns.rcode.SERVFAIL] * 3
    assert (await daemon.ask(CANARY)).rcode() == dns.rcode.NXDOMAIN
    await _ends(daemon, *others)


@pytest.mark.slow
async def test_a_stub_whose_name_server_is_itself_is_not_flooded(tmp_path: Path) -> None:
    own = Endpoint("127.0.0.1", free_port())
    async with running(tmp_path, own, dns_listen=own) as daemon:
        await _asked_in_a_loop(daemon)


@pytest.mark.slow
async def test_two_stubs_that_ask_each_other_are_not_flooded(place: Path) -> None:
    one, other = (Endpoint("127.0.0.1", free_port()) for _ in range(2))
    async with (
        running(place / "one", other, dns_listen=one) as first,
        running(place / "other", one, dns_listen=other) as second,
    ):
        await _asked_in_a_loop(first, second)
        await _asked_in_a_loop(second, first)


async def test_equal_queries_are_sent_once_and_each_asker_has_an_answer() -> None:
    query = dns.message.make_query(ELSEWHERE, "A").to_wire()
    async with name_server(from_records(RECORDS)) as (server, asked):
        upstream = Upstream(server)
        queries = [dns_wire.with_id(query, number) for number in range(50)]
        gone = asyncio.create_task(upstream.exchange(queries[0]))
        waiting = [asyncio.create_task(upstream.exchange(it)) for it in queries]
        await asyncio.sleep(0)
        gone.cancel()
        replies = await asyncio.gather(*waiting)
        assert [dns_wire.id_of(it) for it in replies if it is not None] == list(range(50))
        assert len(asked) == 1
        # Later it is asked anew.
        assert await upstream.exchange(query) is not None
        assert len(asked) == 2
    assert not upstream.under_way


async def test_a_query_that_was_lost_is_sent_again_for_the_next_asker() -> None:
    query = dns.message.make_query(ELSEWHERE, "A").to_wire()

    def answer(wire: bytes) -> list[bytes]:
        # Both datagrams of the first asker are lost.
        return [respond(wire, RECORDS)] if len(asked) > 2 else []

    async with name_server(answer) as (server, asked):
        upstream = Upstream(server)
        first = asyncio.create_task(upstream.exchange(query))
        async with asyncio.timeout(10):
            while len(asked) < 2:  # noqa: ASYNC110 (nothing tells of it)
                await asyncio.sleep(0.01)
        assert await upstream.exchange(query) is not None
        assert await first is not None
