"""A client of the name server: own ids, a fresh port for each query, no answer believed that does not fit (RFC 5452)."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import socket
from collections.abc import Callable, Sequence

from culvert_client.config import Endpoint
from culvert_client.core import dns_wire

# Our tunables, in seconds: two tries fit into the time that an answer is held.
TRY_TIMEOUT = 0.8
TRIES = 2
TCP_TIMEOUT = 1.6
# RFC 768: what its length field can say.
LONGEST_DATAGRAM = 65535

Done = Callable[[bytes | None], None]


class Upstream:
    """`servers` in order of preference. Without one, all is silent."""

    def __init__(self, *servers: Endpoint, reach: Callable[[str], str] = str) -> None:
        self._servers, self._reach = servers, reach

    @property
    def servers(self) -> tuple[Endpoint, ...]:
        return self._servers

    def use(self, servers: tuple[Endpoint, ...]) -> bool:
        """Whether they are others than before."""
        before, self._servers = self._servers, servers
        return servers != before

    def begin(self, query: bytes, done: Done) -> Exchange:
        """The query is on its way when this returns. `done` is called once, later, with what `exchange` returns."""
        return Exchange(self._servers, self._reach, query, done)

    async def exchange(self, query: bytes) -> bytes | None:
        """The answer under the query's own id, whole (over TCP when UDP truncates it); None when the servers are silent."""
        answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        exchange = self.begin(query, answered.set_result)
        try:
            return await answered
        finally:
            exchange.cancel()

    async def says_tunnel(self, fqdn: str) -> bool | None:
        """Whether TXT says that the name needs a tunnel; None when the servers are silent. TXT only ever adds names."""
        query = dns_wire.query(fqdn, "TXT")
        reply = await self.exchange(query) if query is not None else None
        return None if reply is None else dns_wire.txt_says_yes(reply)


class Exchange:
    """One query at the name servers. It takes no task and no turn of the loop: somebody's page waits."""

    # What is received is copied out at once: one is enough, and making one for each costs more than all else here.
    _buffer = bytearray(LONGEST_DATAGRAM)

    def __init__(
        self, servers: Sequence[Endpoint], reach: Callable[[str], str], query: bytes, done: Done
    ) -> None:
        self._reach, self._query, self._done = reach, query, done
        self._loop = asyncio.get_running_loop()
        self._id = secrets.randbelow(1 << 16)
        self._sent = dns_wire.with_id(query, self._id)
        self._servers = itertools.islice(itertools.cycle(servers), TRIES)
        self._end: socket.socket | None = None
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._try_next()

    def cancel(self) -> None:
        """`done` is not called any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._fetching is not None:
            self._fetching.cancel()
        if self._end is not None:
            self._loop.remove_reader(self._end)
            self._end.close()
            self._end = None

    def _try_next(self) -> None:
        self.cancel()
        server = next(self._servers, None)
        if server is None:
            self._timer = self._loop.call_soon(self._done, None)
            return
        host = self._reach(server.host)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._end = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            # Connected: the kernel picks an unpredictable port and admits the server's address alone.
            self._end.connect((host, server.port))
            self._end.send(self._sent)
        except OSError:
            # There is no route, or no descriptor is left: a try at once would fail too.
            if self._end is not None:
                self._end.close()
                self._end = None
            self._timer = self._loop.call_soon(self._try_next)
            return
        self._loop.add_reader(self._end, self._readable, self._end, server)
        self._timer = self._loop.call_later(TRY_TIMEOUT, self._try_next)

    def _readable(self, end: socket.socket, server: Endpoint) -> None:
        try:
            size = end.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            self._try_next()
            return
        reply = bytes(self._buffer[:size])
        # A forged answer must not end the wait for the real one; nor do many of them hold up all others.
        if dns_wire.answers(reply, self._sent, self._id):
            self.cancel()
            if dns_wire.is_truncated(reply):
                self._fetching = asyncio.create_task(self._fetch(server))
            else:
                self._finish(reply)

    def _finish(self, reply: bytes) -> None:
        self._done(dns_wire.with_id(reply, dns_wire.id_of(self._query)))

    async def _fetch(self, server: Endpoint) -> None:
        reply = await self._over_tcp(server)
        self._fetching = None
        if reply is None:
            self._try_next()
        else:
            self._finish(reply)

    async def _over_tcp(self, server: Endpoint) -> bytes | None:
        try:
            async with asyncio.timeout(TCP_TIMEOUT):
                reader, writer = await asyncio.open_connection(self._reach(server.host), server.port)
                try:
                    writer.write(len(self._sent).to_bytes(2, "big") + self._sent)
                    await writer.drain()
                    reply = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                finally:
                    writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return None
        return reply if dns_wire.answers(reply, self._sent, self._id) else None
