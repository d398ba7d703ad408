"""Cold clicks and goodput through the whole of Culvert, in the lab."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import dns.message
import dns.query
import dns.rcode
import grpc.aio
from culvert_lab import topology as net
from culvert_lab.office import Office
from culvert_lab.topology import Site
from culvert_proto import local_pb2, local_pb2_grpc
from iperf import goodput

NAME = "bench"
STUB = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Clicks:
    """Milliseconds: each cold click from query to released answer, and the same query put to the name server itself."""

    held: list[float]
    plain: list[float]


async def cold_clicks(office: Office, count: int) -> Clicks:
    """`count` times: ask for the name with no tunnel up, then close the tunnel. Raises RuntimeError on any refusal."""
    fqdn = await office.add_resource(NAME, idle_seconds=3600)
    clicks = Clicks([], [])
    async with closing(office) as close:
        for _ in range(count):
            clicks.held.append(await office.lab.inside(Site.LAPTOP).run(ask, fqdn, STUB))
            clicks.plain.append(await office.lab.inside(Site.LAPTOP).run(ask, fqdn, net.DNS_ADDRESS))
            await close()
    return clicks


@asynccontextmanager
async def closing(office: Office) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Gives a call that closes every tunnel, and returns when the controller has none left."""
    socket = office.lab.run_directory(Site.LAPTOP) / "culvert/culvertd.sock"
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        daemon = local_pb2_grpc.LocalServiceStub(channel)

        async def close() -> None:
            await daemon.CloseTunnel(local_pb2.CloseTunnelRequest(all=True))
            await office.joined.admin.until("/tunnels", lambda tunnels: not tunnels, "Every tunnel closed")

        yield close


async def open_tunnel(office: Office) -> None:
    """To the name that the clicks open, if it is not up. Raises RuntimeError when it does not come up."""
    opened = await office.culvert("open", f"{NAME}.{net.ZONE}")
    if opened.code != 0:
        raise RuntimeError(opened.stderr)


async def tunnel_mbit_s(office: Office, seconds: int) -> float:
    """iperf3 TCP from the laptop to the intranet through one tunnel, Mbit/s."""
    await open_tunnel(office)
    return await asyncio.to_thread(goodput, Site.LAPTOP.value, Site.INTRANET.value, net.WIKI_ADDRESS, seconds)


def ask(fqdn: str, server: str) -> float:
    """Milliseconds from an A query to its answer. Call it in the laptop. Raises RuntimeError when there is none."""
    query = dns.message.make_query(fqdn, "A", use_edns=0)
    began = time.perf_counter()
    answer = dns.query.udp(query, server, timeout=5.0)
    took = (time.perf_counter() - began) * 1000
    if answer.rcode() != dns.rcode.NOERROR or not answer.answer:
        raise RuntimeError(f"{fqdn} was not answered: {dns.rcode.to_text(answer.rcode())}")
    return took
