"""A program that kept an address from before, and asks no name server: what it sends before the tunnel goes on in it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from culvert_client.core.triggers import SAME_NAME_EVERY
from culvert_ipsec.link_plan import ROUTE_TABLE
from culvert_lab import laptop, spare
from culvert_lab import topology as net
from culvert_lab.office import Office, open_office
from culvert_lab.topology import Site
from culvert_proto import local_pb2

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

PORT = 2223
PATIENCE = 20.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office() -> AsyncGenerator[Office]:
    """With IPv6 inside, too."""
    prefixes = f"{net.PROTECTED_PREFIX},{spare.PREFIX6}"
    async with open_office(settings={"CULVERT_PROTECTED_PREFIXES": prefixes}) as office:
        yield office


@asynccontextmanager
async def echo(office: Office, address: str) -> AsyncGenerator[None]:
    """A server in the intranet that sends each datagram back."""

    def listen() -> socket.socket:
        server = socket.socket(_family(address), socket.SOCK_DGRAM)
        server.bind((address, PORT))
        return server

    with await office.lab.inside(Site.INTRANET).run(listen) as server:
        server.setblocking(False)
        loop = asyncio.get_running_loop()

        def answer() -> None:
            server.sendto(*server.recvfrom(100))

        loop.add_reader(server, answer)
        try:
            yield
        finally:
            loop.remove_reader(server)


def asked(address: str) -> bytes:
    """The answer to a datagram of a connected socket."""
    with socket.socket(_family(address), socket.SOCK_DGRAM) as program:
        program.settimeout(PATIENCE)
        program.connect((address, PORT))
        program.send(b"once")
        return program.recv(100)


async def routes(office: Office) -> str:
    return (
        await office.lab.run(Site.LAPTOP, ["ip", "-6", "route", "show", "table", str(ROUTE_TABLE)])
    ).stdout


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


async def test_a_connection_to_the_address_alone_goes_through(office: Office) -> None:
    assert not (await laptop.status(office.lab)).tunnels
    argv = ["curl", "-sS", "--max-time", "20", "-H", f"Host: {net.WIKI_NAME}", f"http://{net.WIKI_ADDRESS}/"]
    page = await office.lab.run(Site.LAPTOP, argv)
    assert page.code == 0, page.stderr
    assert net.MARKER in page.stdout
    [tunnel] = (await laptop.status(office.lab)).tunnels
    assert (tunnel.fqdn, tunnel.state) == (net.WIKI_NAME, local_pb2.TUNNEL_STATE_UP)


async def test_a_datagram_without_a_dns_query_arrives(office: Office) -> None:
    assert (await office.culvert("pause", "15m")).code == 0
    assert (await office.culvert("resume")).code == 0
    # Packets ask for one name no sooner.
    await asyncio.sleep(SAME_NAME_EVERY)
    async with echo(office, net.WIKI_ADDRESS):
        assert await office.lab.inside(Site.LAPTOP).run(asked, net.WIKI_ADDRESS) == b"once"


async def test_a_datagram_over_ipv6_without_a_dns_query_arrives(office: Office) -> None:
    await spare.start(office.lab, office.joined.admin)
    await spare.six(office.joined.admin)
    while "src fd99:1::1" not in await routes(office):  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(0.1)
    async with echo(office, spare.WIKI_ADDRESS6):
        assert await office.lab.inside(Site.LAPTOP).run(asked, spare.WIKI_ADDRESS6) == b"once"
