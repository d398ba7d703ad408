"""A client of the name servers: own ids, a new port for each query, and only matching answers are accepted (RFC 5452).

   first round   each server over UDP, in the order of core/name_servers.py. The next server is asked when the patience for
                 the previous one is over, or at once after REFUSED, SERVFAIL, NOTIMP or an ICMP error.
   second round  each server again, over UDP and TCP: the fragments of a long answer may have been lost
   truncated     the whole answer is fetched over TCP

The first answer counts, whichever server sends it. A failure is passed on only when no server has a better answer.

Equal queries share one exchange and its answer. So a forwarding loop through a name server causes no flood, and a forger
has one chance instead of many (RFC 5452 section 5).
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable

import dns.rcode

from culvert_client.config import Endpoint, sockaddr
from culvert_client.core import dns_wire
from culvert_client.core.grant import Address
from culvert_client.core.name_servers import NameServers, TxtSilence

# Our tunables, in seconds: all tries fit into the 2 s for which an answer is held.
PATIENCE = 0.5
DEADLINE = 1.6
TCP_TIMEOUT = 1.6
TCP_AT_ONCE = 64
"""Connections of second rounds. The limit keeps a flood of names from taking all descriptors while servers are silent."""
# RFC 768: the largest value of the length field.
LONGEST_DATAGRAM = 65535

# As in glibc's resolver: these codes describe the server, not the name.
_FAILURES = frozenset({dns.rcode.SERVFAIL, dns.rcode.NOTIMP, dns.rcode.REFUSED})

Done = Callable[[bytes | None], None]


class Upstream:
    """`servers`: in order of preference. Without a server no query is answered."""

    def __init__(self, *servers: Endpoint, reach: Callable[[str], str] = str) -> None:
        self.known, self.reach = NameServers[Endpoint](servers), reach
        self._txt = TxtSilence()
        self._under_way: dict[bytes, Exchange] = {}
        self.second_rounds = 0
        """Open connections of second rounds."""
        self.answers = 0
        """The number of answers so far, from all servers."""

    @property
    def servers(self) -> tuple[Endpoint, ...]:
        return self.known.servers

    def use(self, servers: tuple[Endpoint, ...]) -> bool:
        """Use these servers. True if they have changed."""
        if servers == self.servers:
            return False
        self.known.use(servers)
        self._under_way.clear()
        self._txt.note_answer()
        return True

    def on_roam(self) -> None:
        """Forget the servers' records, because the computer is in another network."""
        self.known.forget()
        self._under_way.clear()
        self._txt.note_answer()

    @property
    def under_way(self) -> int:
        """The number of running exchanges."""
        return len(self._under_way)

    def begin(self, query: bytes, done: Done) -> Asker:
        """Send the query before returning. `done` is called once, later, with the result as of `exchange`."""
        sent = dns_wire.with_own_size(query)
        key = sent[2:]
        exchange = self._under_way.get(key)
        if exchange is None:
            exchange = self._under_way[key] = Exchange(self, sent)
        return exchange.join(Asker(exchange, dns_wire.id_of(query), done))

    def on_end(self, sent: bytes, exchange: Exchange) -> None:
        """Called by an exchange that has ended."""
        if self._under_way.get(sent[2:]) is exchange:
            del self._under_way[sent[2:]]

    async def exchange(self, query: bytes) -> bytes | None:
        """The whole answer (over TCP if UDP truncates it) with the query's own id; None if the servers are silent."""
        answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        asker = self.begin(query, answered.set_result)
        try:
            return await answered
        finally:
            asker.cancel()

    async def mark(self, fqdn: str) -> str | None:
        """The name with TXT's mark: this one, or its alias's target; empty without a mark.
        None if the servers are silent. TXT can only add names."""
        query = dns_wire.query(fqdn, "TXT")
        reply = await self.exchange(query) if query is not None else None
        return None if reply is None else dns_wire.read_marked_name(reply) or ""

    async def ask_addresses(self, fqdn: str) -> frozenset[Address]:
        """The name's IPv4 addresses; empty without an answer."""
        query = dns_wire.query(fqdn, "A")
        reply = await self.exchange(query) if query is not None else None
        return (dns_wire.addresses_in(reply) if reply is not None else None) or frozenset()

    async def ask_mark(self, fqdn: str) -> str:
        """As `mark`, for a held query. Silence is remembered, so that it delays a name only once."""
        now = asyncio.get_running_loop().time
        if not self._txt.expects(fqdn, now()):
            return ""
        answers = self.answers
        mark = await self.mark(fqdn)
        if mark is not None:
            self._txt.note_answer()
        elif self.answers != answers:
            # Only if other queries were answered: silent servers may answer TXT when they come back.
            self._txt.silent(fqdn, now())
        return mark or ""


class Asker:
    """A waiter for an exchange. `query_id`: the id of the answer that it gets."""

    def __init__(self, exchange: Exchange, query_id: int, done: Done) -> None:
        self._exchange, self._id, self._done = exchange, query_id, done
        self._waits = True

    def cancel(self) -> None:
        """Stop waiting: `done` will not be called."""
        self._waits = False
        self._exchange.leave(self)

    def take(self, reply: bytes | None) -> None:
        if self._waits:
            self._waits = False
            self._done(dns_wire.with_id(reply, self._id) if reply is not None else None)


class Exchange:
    """A query to the name servers. For low latency it needs no task and no turn of the event loop."""

    # One buffer for all exchanges: its content is copied at once, and allocating a buffer each time would be slow.
    _buffer = bytearray(LONGEST_DATAGRAM)

    def __init__(self, upstream: Upstream, query: bytes) -> None:
        self._upstream = upstream
        self._askers: dict[Asker, None] = {}
        self._loop = asyncio.get_running_loop()
        self._id = secrets.randbelow(1 << 16)
        self._sent = dns_wire.with_id(query, self._id)
        self._order = upstream.known.order()
        self._step = 0
        self._patience = min(PATIENCE, DEADLINE / (2 * max(1, len(self._order))))
        self._ends: dict[Endpoint, tuple[socket.socket, float]] = {}
        self._fetching: dict[Endpoint, asyncio.Task[None]] = {}
        self._failure: bytes | None = None
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        now = self._loop.time()
        self._until = now + DEADLINE
        self._again_at = now + self._patience
        if (trial := upstream.known.trial(now)) is not None:
            self._send(trial)
        self._ask_next()

    def join(self, asker: Asker) -> Asker:
        """Add a waiter. Send the query again, because it may be lost, but at most once in `_patience`."""
        self._askers[asker] = None
        if (now := self._loop.time()) >= self._again_at:
            self._again_at = now + self._patience
            for server in list(self._ends):
                self._send(server)
        return asker

    def leave(self, asker: Asker) -> None:
        """Remove a waiter; without waiters the exchange ends."""
        if self._askers.pop(asker, asker) is None and not self._askers:
            self._end()

    def _end(self) -> None:
        self._upstream.on_end(self._sent, self)
        if self._timer is not None:
            self._timer.cancel()
        for task in self._fetching.values():
            task.cancel()
        for server in list(self._ends):
            self._close(server)

    def _ask_next(self) -> None:
        """Ask the next server, and set the timer for the one after. The exchange does not end before `__init__` returns."""
        if self._timer is not None:
            self._timer.cancel()
        servers = len(self._order)
        while self._step < (servers if self._failure is not None else 2 * servers):
            server, again = self._order[self._step % servers], self._step >= servers
            self._step += 1
            if again:
                self._fetch(server)
            if self._send(server) or again:
                rest = self._until - self._loop.time()
                is_last = self._step == 2 * servers
                self._timer = self._loop.call_later(
                    rest if is_last else min(self._patience, rest), self._ask_next
                )
                return
        # If all servers are silent, the query may be the cause, so no server is marked.
        if self._failure is not None:
            for server in self._ends:
                self._upstream.known.silent(server, self._loop.time())
        self._timer = self._loop.call_soon(self._finish, self._failure)

    def _send(self, server: Endpoint) -> bool:
        """Send the query. False if it could not be sent."""
        known = self._ends.get(server)
        try:
            if known is None:
                address = sockaddr(self._upstream.reach(server.host), server.port)
                family = socket.AF_INET6 if len(address) > 2 else socket.AF_INET
                end = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
                self._ends[server] = end, self._loop.time()
                # Connect, so that the kernel picks a random port and accepts only datagrams of the server.
                end.connect(address)
                self._loop.add_reader(end, self._readable, end, server)
            else:
                end, _ = known
            end.send(self._sent)
        except OSError:
            # No route, no such interface, or no free descriptor.
            self._close(server)
            return False
        return True

    def _close(self, server: Endpoint) -> None:
        if (known := self._ends.pop(server, None)) is not None:
            self._loop.remove_reader(known[0])
            known[0].close()

    def _readable(self, end: socket.socket, server: Endpoint) -> None:
        try:
            size = end.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            # An ICMP error: no name server runs there.
            self._upstream.known.silent(server, self._loop.time())
            self._close(server)
            if not self._ends and not self._fetching:
                self._ask_next()
            return
        reply = bytes(self._buffer[:size])
        # Ignore forged answers, and keep waiting. Each turn of the loop reads one datagram.
        if dns_wire.answers(reply, self._sent, self._id):
            self._heard(server)
            if dns_wire.is_truncated(reply):
                self._until = max(self._until, self._loop.time() + TCP_TIMEOUT)
                self._fetch(server, whole=True)
            else:
                self._take(reply)

    def _heard(self, server: Endpoint) -> None:
        """Record an answer. Servers that were asked earlier and are still silent count as silent."""
        now = self._loop.time()
        self._upstream.answers += 1
        end = self._ends.get(server)
        if end is not None:
            in_time = now - end[1] <= self._patience
            self._upstream.known.note_exchange(server, in_time=in_time, now=now)
            self._close(server)
        for other, (_, since) in self._ends.items():
            if now - since > self._patience:
                self._upstream.known.silent(other, now)

    def _take(self, reply: bytes) -> None:
        if dns_wire.rcode_of(reply) not in _FAILURES:
            self._finish(reply)
            return
        self._failure = self._failure or reply
        if self._step < len(self._order) or not (self._ends or self._fetching):
            self._ask_next()

    def _finish(self, reply: bytes | None) -> None:
        self._end()
        first, *others = self._askers
        self._askers.clear()
        # In turns of their own, so that a fault in one waiter does not affect the others.
        for asker in others:
            self._loop.call_soon(asker.take, reply)
        first.take(reply)

    def _fetch(self, server: Endpoint, *, whole: bool = False) -> None:
        """Ask over TCP. `whole`: after a truncated answer; such connections do not count against TCP_AT_ONCE."""
        if server in self._fetching or (not whole and self._upstream.second_rounds >= TCP_AT_ONCE):
            return
        if whole and self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(TCP_TIMEOUT, self._ask_next)
        self._fetching[server] = asyncio.create_task(self._fetch_over_tcp(server, counts=not whole))

    async def _fetch_over_tcp(self, server: Endpoint, *, counts: bool) -> None:
        self._upstream.second_rounds += counts
        try:
            reply = await self._over_tcp(server)
        finally:
            self._upstream.second_rounds -= counts
        del self._fetching[server]
        if reply is not None:
            self._heard(server)
            self._take(reply)
        elif not self._ends and not self._fetching:
            self._ask_next()

    async def _over_tcp(self, server: Endpoint) -> bytes | None:
        try:
            async with asyncio.timeout(TCP_TIMEOUT):
                host = self._upstream.reach(server.host)
                reader, writer = await asyncio.open_connection(host, server.port)
                try:
                    writer.write(len(self._sent).to_bytes(2, "big") + self._sent)
                    await writer.drain()
                    reply = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                finally:
                    writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return None
        return reply if dns_wire.answers(reply, self._sent, self._id) else None
