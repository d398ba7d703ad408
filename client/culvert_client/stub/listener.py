"""The DNS port of this computer: receives queries over UDP and TCP, passes them to the resolver, sends its answers.

   datagram ────► a place for UDP ──────────────┐
   connection ──► a place for TCP ──► query ────┤ needs no tunnel: forwarded
                    (further ones: for UDP)     └ may need one: a place for tunnels instead

A connection's answers may be in another order than its queries (RFC 7766 section 6.2.1.1). Each user of this computer has
separate places of each kind (core/places.py).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from culvert_client.config import Endpoint, SocketAddress, sockaddr
from culvert_client.core import dns_wire
from culvert_client.core.dns_wire import QueryKind, Question
from culvert_client.core.places import Owners, Places
from culvert_client.platform.interfaces import LocalSenders, SenderFilter, SocketOwner

log = logging.getLogger("culvertd")

# Our tunables. The first of each pair is for all users together, the second is reserved for each owner and for root.
UDP_QUERIES, UDP_RESERVED = 1000, 64
TCP_CONNECTIONS, TCP_RESERVED = 256, 16
WAITING_FOR_TUNNELS, WAITING_RESERVED = 256, 64
LONGEST_QUERY = 4096
"""Bytes. A longer query is truncated, and so malformed, over UDP; over TCP the connection ends."""
TCP_IDLE = 10.0
"""Seconds."""
PIPELINED = 16
"""Queries of one connection that may wait for their answers. The next one is read when one of them is answered."""
RATE_WINDOW, QUERIES_A_WINDOW = 0.1, 200
"""Seconds, and UDP queries of one user in that time. Further ones are dropped unparsed, to leave time for other users."""
DATAGRAMS_A_TURN, QUERIES_A_TURN = 1024, 32
"""Datagrams read in one turn of the event loop, less the queries that wait; and queries served. Reading costs much less."""
RECEIVE_BUFFER = 4 << 20
"""Bytes: one user's burst must leave room for another user's query."""


class Resolver(Protocol):
    def sort(self, query: bytes) -> Question: ...

    def resolve(self, query: bytes, question: Question, answer: Callable[[bytes | None], None]) -> None:
        """Call `answer` once, now or later, with the answer, or with None for no answer."""
        ...


class Listener:
    """Drops the queries of a user without a free place, so that a flood takes bounded memory."""

    def __init__(self, resolver: Resolver, owners: Owners, senders: LocalSenders) -> None:
        self._resolver, self._senders = resolver, senders
        self._udp = Places(UDP_QUERIES, UDP_QUERIES, UDP_RESERVED, owners)
        self._tcp = Places(TCP_CONNECTIONS, TCP_CONNECTIONS, TCP_RESERVED, owners)
        self._tunnels = Places(WAITING_FOR_TUNNELS, WAITING_FOR_TUNNELS, WAITING_RESERVED, owners)
        self._asked_lately: Counter[int | None] = Counter()
        self._window: asyncio.TimerHandle | None = None
        # Waiting queries by user; the next user comes first.
        self._waiting: dict[int | None, deque[tuple[bytes, SocketAddress]]] = {}
        self._serving: asyncio.Handle | None = None
        self._socket_owner: SocketOwner | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._datagrams: socket.socket | None = None
        self._server: asyncio.Server | None = None

    async def open(self, endpoint: Endpoint) -> None:
        """Raises OSError if the port is taken or not permitted. May be opened again after `close`."""
        try:
            self._socket_owner = self._senders.socket_owner()
        except OSError as error:
            log.warning(
                "the kernel does not tell the users of queries, so all users share the same places: %s", error
            )
        self._server = await asyncio.start_server(self._on_connection, endpoint.host, endpoint.port)
        address = sockaddr(endpoint.host, endpoint.port)
        family = socket.AF_INET6 if len(address) > 2 else socket.AF_INET
        self._datagrams = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._senders.grow_receive_buffer(self._datagrams, RECEIVE_BUFFER)
        self._datagrams.bind(address)
        senders = self._senders.sender_filter(self._datagrams)
        asyncio.get_running_loop().add_reader(self._datagrams, self._on_readable, self._datagrams, senders)

    async def close(self) -> None:
        for handle in filter(None, (self._window, self._serving)):
            handle.cancel()
        if self._datagrams is not None:
            asyncio.get_running_loop().remove_reader(self._datagrams)
            self._datagrams.close()
            self._datagrams = None
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._socket_owner is not None:
            self._socket_owner.close()

    def _on_readable(self, datagrams: socket.socket, senders: SenderFilter) -> None:
        uids: dict[SocketAddress, int | None] = {}
        for _ in range(DATAGRAMS_A_TURN - self._count_waiting()):
            try:
                query, sender = datagrams.recvfrom(LONGEST_QUERY)
            except OSError:
                # Nothing to read, or an ICMP error about an earlier answer.
                break
            if sender not in uids:
                uids[sender] = self._uid_of(datagrams, sender)
            uid = uids[sender]
            if self._asks_too_fast(uid, senders):
                senders.too_fast(sender)
            else:
                self._waiting.setdefault(uid, deque()).append((query, sender))
        senders.apply()
        if self._serving is None:
            self._serve(datagrams)

    def _serve(self, datagrams: socket.socket) -> None:
        """Pass queries to the resolver, one of each user in turn, so that a user with many queries delays only these."""
        self._serving = None
        try:
            for _ in range(min(QUERIES_A_TURN, self._count_waiting())):
                uid = next(iter(self._waiting))
                queries = self._waiting.pop(uid)
                query, sender = queries.popleft()
                if queries:
                    self._waiting[uid] = queries
                self._on_query(datagrams, uid, query, sender)
        finally:
            if self._waiting:
                self._serving = asyncio.get_running_loop().call_soon(self._serve, datagrams)

    def _count_waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _on_query(
        self, datagrams: socket.socket, uid: int | None, query: bytes, sender: SocketAddress
    ) -> None:
        # Checked before parsing, so that dropped queries cost little.
        if not self._udp.take(uid):
            return

        def answer(reply: bytes | None) -> None:
            # Ignore errors: the program has gone, or repeats its query.
            if reply is not None:
                with suppress(OSError):
                    datagrams.sendto(dns_wire.fit_udp(reply, query), sender)

        self._resolve(query, uid, self._udp, answer)

    def _resolve(
        self, query: bytes, uid: int | None, taken: Places | None, answer: Callable[[bytes | None], None]
    ) -> None:
        """`taken`: the places of which the query holds one, which is given back. `answer` is called once, with None if
        there is no place for the tunnel."""

        def give_back() -> None:
            nonlocal taken
            if taken is not None:
                taken.give_back(uid)
                taken = None

        def answered(reply: bytes | None) -> None:
            give_back()
            answer(reply)

        try:
            question = self._resolver.sort(query)
            if question.kind is QueryKind.HOLD:
                give_back()
                if not self._tunnels.take(uid):
                    answer(None)
                    return
                taken = self._tunnels
            self._resolver.resolve(query, question, answered)
        except BaseException:
            # Without this, each fault would cost its user a place for good.
            give_back()
            raise

    def _asks_too_fast(self, uid: int | None, senders: SenderFilter) -> bool:
        if self._window is None:
            self._begin_window(senders)
        self._asked_lately[uid] += 1
        waiting = len(self._waiting.get(uid, ()))
        return max(self._asked_lately[uid], waiting) > QUERIES_A_WINDOW

    def _end_window(self, senders: SenderFilter) -> None:
        self._asked_lately.clear()
        senders.end_window()
        senders.apply()
        self._window = None
        if senders.is_used:
            self._begin_window(senders)

    def _begin_window(self, senders: SenderFilter) -> None:
        self._window = asyncio.get_running_loop().call_later(RATE_WINDOW, self._end_window, senders)

    def _uid_of(self, own: socket.socket, asker: SocketAddress) -> int | None:
        if self._socket_owner is None:
            return None
        return self._socket_owner.uid_of(own.family, own.type, asker, own.getsockname())

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own: socket.socket = writer.get_extra_info("socket")
        uid = self._uid_of(own, writer.get_extra_info("peername"))
        if not self._tcp.take(uid):
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve_connection(reader, writer, uid)
        except (OSError, TimeoutError):
            return
        finally:
            self._tcp.give_back(uid)
            self._connections.discard(task)
            writer.close()

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, uid: int | None
    ) -> None:
        """Serve until the program closes its side and all of its queries are answered."""
        waiting, fewer = 0, asyncio.Event()

        def answer(reply: bytes | None) -> None:
            nonlocal waiting
            waiting -= 1
            fewer.set()
            if reply is None:
                writer.close()
            elif not writer.is_closing():
                writer.write(len(reply).to_bytes(2, "big") + reply)

        async def until_fewer_wait_than(most: int) -> None:
            while waiting >= most:
                fewer.clear()
                await fewer.wait()

        while (query := await _query(reader)) is not None:
            await until_fewer_wait_than(PIPELINED)
            # The connection's place covers one query; further ones take places for UDP.
            if waiting and not self._udp.take(uid):
                break
            waiting += 1
            self._resolve(query, uid, self._udp if waiting > 1 else None, answer)
            async with asyncio.timeout(TCP_IDLE):
                await writer.drain()
        await until_fewer_wait_than(1)


async def _query(reader: asyncio.StreamReader) -> bytes | None:
    """The next query; None at the end, after TCP_IDLE, and for a too long query."""
    with suppress(TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(TCP_IDLE):
            query = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
            return query if len(query) <= LONGEST_QUERY else None
    return None
