"""Times the hops of one name at a person's wish, for `culvert why` (local.proto, HopTimes).

name server   a query for the name's address
gateway       a ping outside of the tunnel
server        a TCP connection through the tunnel; also a refusal shows that the server is there
page          TLS where the port is 443, and the request for "/" until the first byte of the answer

The request has no cookie, and nothing of the answer but its status code is kept. The server's certificate is not checked,
because nothing is believed that comes over the connection.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address

import dns.rcode
from culvert_proto import local_pb2
from culvert_proto.dns_name import is_wildcard

from culvert_client.core import dns_wire
from culvert_client.core.clicks import KEPT
from culvert_client.core.grant import HTTP, HTTPS, Address, Tunnel
from culvert_client.ping import Ping, ping
from culvert_client.platform.interfaces import PingSockets
from culvert_client.stub.upstream import Upstream

# IANA's number.
_TCP = 6
# Our tunables, in seconds.
CONNECT_PATIENCE = 3.0
PAGE_PATIENCE = 8.0
# Our tunables: addresses and ports to try, and bytes of an answer to read.
_ADDRESSES, _PORTS, _FIRST_BYTES = 2, 4, 512
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})\b")

_ANSWERED, _SILENT, _REFUSED = (
    local_pb2.HOP_RESULT_ANSWERED,
    local_pb2.HOP_RESULT_SILENT,
    local_pb2.HOP_RESULT_REFUSED,
)


@dataclass(frozen=True, slots=True)
class Way:
    """The parts between this computer and a page. `fqdn`: the tunnel's. `gateway`: its outer address on this network, None
    if unknown. `addresses`: the name's according to the profile, for a name server that has none. `host`: the page's name
    where `fqdn` is a wildcard."""

    fqdn: str
    tunnel: Tunnel
    gateway: str | None
    addresses: Collection[Address]
    host: str = ""


class HopTimer:
    """`newest`: the last times of the last timed names."""

    def __init__(self, upstream: Upstream, sockets: PingSockets) -> None:
        self._upstream, self._sockets = upstream, sockets
        self.newest: dict[str, local_pb2.HopTimes] = {}

    async def time(self, way: Way) -> local_pb2.HopTimes:
        host = "" if is_wildcard(way.fqdn) else way.fqdn
        page, gateway = await asyncio.gather(
            self._time_behind(way.host or host, way), _ping(self._sockets, way.gateway)
        )
        hops = [*page, *gateway]
        timed = local_pb2.HopTimes(fqdn=way.fqdn, at_ms=round(time.time() * 1e3), hops=hops)
        self.newest.pop(way.fqdn, None)
        self.newest[way.fqdn] = timed
        if len(self.newest) > KEPT:
            del self.newest[next(iter(self.newest))]
        return timed

    async def _time_behind(self, host: str, way: Way) -> list[local_pb2.HopTime]:
        """Nothing for a wildcard, which has no page."""
        if not host:
            return []
        named, found = await _ask(self._upstream, host)
        addresses = carried(found or way.addresses, way.tunnel)
        return [named, *await _time_server(host, addresses, _ports(way.tunnel))]


def carried(addresses: Collection[Address], tunnel: Tunnel) -> list[Address]:
    """The first addresses that the tunnel carries."""
    found = {it for it in addresses if tunnel.covers(it)}
    return sorted(found, key=lambda it: (it.version, int(it)))[:_ADDRESSES]


async def _ask(upstream: Upstream, fqdn: str) -> tuple[local_pb2.HopTime, Collection[Address]]:
    kind, start = local_pb2.HOP_KIND_NAME_SERVER, time.monotonic()
    query = dns_wire.query(fqdn, "A")
    reply = await upstream.exchange(query) if query is not None else None
    if reply is None:
        return _hop(kind, _SILENT, start), ()
    failed = dns_wire.rcode_of(reply) not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)
    return _hop(kind, _REFUSED if failed else _ANSWERED, start), dns_wire.addresses_in(reply) or ()


async def _ping(sockets: PingSockets, gateway: str | None) -> list[local_pb2.HopTime]:
    """None without an answer, because many networks let no ping pass."""
    if gateway is None:
        return []
    one = Ping(ip_address(gateway))
    with suppress(OSError):
        if (trip := (await ping(sockets, {one})).get(one)) is not None:
            kind = local_pb2.HOP_KIND_GATEWAY
            return [local_pb2.HopTime(kind=kind, result=_ANSWERED, us=max(1, round(trip * 1e6)))]
    return []


def _ports(tunnel: Tunnel) -> list[int]:
    """The web's ports as far as the tunnel carries them; else the first ports that it carries."""
    if web := [it for it in (HTTPS, HTTP) if tunnel.carries_port(it)]:
        return web
    firsts = (it.ports[0] for it in tunnel.selectors if it.protocol in (None, _TCP))
    return list(dict.fromkeys(max(1, first) for first in firsts))[:_PORTS]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """`streams`: None if the server refused the connection."""

    port: int
    us: int
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None


async def _time_server(
    fqdn: str, addresses: Sequence[Address], ports: Sequence[int]
) -> list[local_pb2.HopTime]:
    """The server by its first port that answers, and its page if that is a port of the web."""
    if not addresses or not ports:
        return []
    tries = (_connect(address, port) for port in ports for address in addresses)
    attempts = [it for it in await asyncio.gather(*tries) if it is not None]
    try:
        chosen = next((it for it in attempts if it.streams is not None), None)
        if chosen is None:
            refused = min(attempts, key=lambda it: it.us, default=None)
            result, us = (_REFUSED, refused.us) if refused is not None else (_SILENT, 0)
            return [local_pb2.HopTime(kind=local_pb2.HOP_KIND_SERVER, result=result, us=us, port=ports[0])]
        server = local_pb2.HopTime(
            kind=local_pb2.HOP_KIND_SERVER, result=_ANSWERED, us=chosen.us, port=chosen.port
        )
        page = await _time_page(fqdn, chosen) if chosen.port in (HTTPS, HTTP) else None
        return [server, page] if page is not None else [server]
    finally:
        for it in attempts:
            if it.streams is not None:
                it.streams[1].transport.abort()


async def _connect(address: Address, port: int) -> _Attempt | None:
    start = time.monotonic()
    try:
        async with asyncio.timeout(CONNECT_PATIENCE):
            streams = await asyncio.open_connection(str(address), port, limit=_FIRST_BYTES)
    except ConnectionRefusedError:
        return _Attempt(port, _since(start), None)
    except OSError:  # a TimeoutError, too
        return None
    return _Attempt(port, _since(start), streams)


async def _time_page(fqdn: str, on: _Attempt) -> local_pb2.HopTime:
    kind, start = local_pb2.HOP_KIND_PAGE, time.monotonic()
    assert on.streams is not None
    reader, writer = on.streams
    try:
        async with asyncio.timeout(PAGE_PATIENCE):
            if on.port == HTTPS:
                await writer.start_tls(_unchecked(), server_hostname=fqdn)
            request = f"GET / HTTP/1.1\r\nHost: {fqdn}\r\nUser-Agent: Culvert\r\nConnection: close\r\n\r\n"
            writer.write(request.encode("ascii"))
            first = await reader.read(_FIRST_BYTES)
    except TimeoutError:
        return local_pb2.HopTime(kind=kind, result=_SILENT, us=_since(start), port=on.port)
    except (OSError, ssl.SSLError):
        first = b""
    status = int(found[1]) if (found := _STATUS.match(first)) is not None else 0
    result = _ANSWERED if first and status < 500 else _REFUSED
    return local_pb2.HopTime(kind=kind, result=result, us=_since(start), port=on.port, http_status=status)


def _unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _hop(
    kind: local_pb2.HopKind.ValueType, result: local_pb2.HopResult.ValueType, start: float
) -> local_pb2.HopTime:
    return local_pb2.HopTime(kind=kind, result=result, us=_since(start))


def _since(start: float) -> int:
    """Microseconds."""
    return max(1, round((time.monotonic() - start) * 1e6))
