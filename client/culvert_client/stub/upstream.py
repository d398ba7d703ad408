"""A client of the name server: own ids, a fresh port for each query, no answer believed that does not fit (RFC 5452)."""

from __future__ import annotations

import asyncio
import itertools
import secrets

from culvert_client.config import Endpoint
from culvert_client.core import dns_wire

# Our tunables, in seconds: two tries fit into the time that an answer is held.
TRY_TIMEOUT = 0.8
TRIES = 2
TCP_TIMEOUT = 1.6


class Upstream:
    """`servers` in order of preference. Without one, all is silent."""

    def __init__(self, *servers: Endpoint) -> None:
        self._servers = servers

    def use(self, servers: tuple[Endpoint, ...]) -> None:
        self._servers = servers

    async def exchange(self, query: bytes) -> bytes | None:
        """The answer under the query's own id, whole (over TCP when UDP truncates it); None when the servers are silent."""
        query_id = secrets.randbelow(1 << 16)
        sent = dns_wire.with_id(query, query_id)
        for server in itertools.islice(itertools.cycle(self._servers), TRIES):
            reply = await self._over_udp(server, sent, query_id)
            if reply is not None and dns_wire.is_truncated(reply):
                reply = await self._over_tcp(server, sent, query_id)
            if reply is not None:
                return dns_wire.with_id(reply, dns_wire.id_of(query))
        return None

    async def says_tunnel(self, fqdn: str) -> bool:
        """Whether TXT says that the name needs a tunnel. Silence is a no: TXT only ever adds names."""
        query = dns_wire.txt_query(fqdn)
        reply = await self.exchange(query) if query is not None else None
        return reply is not None and dns_wire.txt_says_yes(reply)

    async def _over_udp(self, server: Endpoint, sent: bytes, query_id: int) -> bytes | None:
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[bytes] = loop.create_future()
        try:
            # A connected socket: the kernel picks an unpredictable port and admits the server's address alone.
            transport, _ = await loop.create_datagram_endpoint(
                lambda: _Exchange(sent, query_id, reply), remote_addr=(server.host, server.port)
            )
        except OSError:
            return None
        try:
            transport.sendto(sent)
            return await asyncio.wait_for(reply, TRY_TIMEOUT)
        except (TimeoutError, OSError):
            return None
        finally:
            transport.close()

    async def _over_tcp(self, server: Endpoint, sent: bytes, query_id: int) -> bytes | None:
        try:
            async with asyncio.timeout(TCP_TIMEOUT):
                reader, writer = await asyncio.open_connection(server.host, server.port)
                try:
                    writer.write(len(sent).to_bytes(2, "big") + sent)
                    await writer.drain()
                    reply = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                finally:
                    writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return None
        return reply if dns_wire.answers(reply, sent, query_id) else None


class _Exchange(asyncio.DatagramProtocol):
    def __init__(self, sent: bytes, query_id: int, reply: asyncio.Future[bytes]) -> None:
        self._sent, self._query_id, self._reply = sent, query_id, reply

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        # A forged answer must not end the wait for the real one.
        if not self._reply.done() and dns_wire.answers(data, self._sent, self._query_id):
            self._reply.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self._reply.done():
            self._reply.set_exception(exc)
