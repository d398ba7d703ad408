"""A client of the name server: own ids, a fresh port for each query, no answer believed that does not fit (RFC 5452)."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import socket
from collections.abc import Callable

from culvert_client.config import Endpoint
from culvert_client.core import dns_wire

# Our tunables, in seconds: two tries fit into the time that an answer is held.
TRY_TIMEOUT = 0.8
TRIES = 2
TCP_TIMEOUT = 1.6
# RFC 768: what its length field can say.
LONGEST_DATAGRAM = 65535


class Upstream:
    """`servers` in order of preference. Without one, all is silent."""

    def __init__(self, *servers: Endpoint, reach: Callable[[str], str] = str) -> None:
        self._servers, self._reach = servers, reach

    def use(self, servers: tuple[Endpoint, ...]) -> bool:
        """Whether they are others than before."""
        before, self._servers = self._servers, servers
        return servers != before

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

    async def says_tunnel(self, fqdn: str) -> bool | None:
        """Whether TXT says that the name needs a tunnel; None when the servers are silent. TXT only ever adds names."""
        query = dns_wire.query(fqdn, "TXT")
        reply = await self.exchange(query) if query is not None else None
        return None if reply is None else dns_wire.txt_says_yes(reply)

    async def _over_udp(self, server: Endpoint, sent: bytes, query_id: int) -> bytes | None:
        loop, host = asyncio.get_running_loop(), self._reach(server.host)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as end:
            try:
                # Connected: the kernel picks an unpredictable port and admits the server's address alone.
                end.connect((host, server.port))
                end.send(sent)
                async with asyncio.timeout(TRY_TIMEOUT):
                    # A forged answer must not end the wait for the real one.
                    reply = await loop.sock_recv(end, LONGEST_DATAGRAM)
                    while not dns_wire.answers(reply, sent, query_id):
                        # Nor may a flood of them hold up all others.
                        await asyncio.sleep(0)
                        reply = await loop.sock_recv(end, LONGEST_DATAGRAM)
            except (TimeoutError, OSError):
                return None
        return reply

    async def _over_tcp(self, server: Endpoint, sent: bytes, query_id: int) -> bytes | None:
        try:
            async with asyncio.timeout(TCP_TIMEOUT):
                reader, writer = await asyncio.open_connection(self._reach(server.host), server.port)
                try:
                    writer.write(len(sent).to_bytes(2, "big") + sent)
                    await writer.drain()
                    reply = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                finally:
                    writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return None
        return reply if dns_wire.answers(reply, sent, query_id) else None
