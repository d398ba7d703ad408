"""A program that kept an address from before, and asks no name server."""

from __future__ import annotations

import pytest
from culvert_lab import laptop
from culvert_lab import topology as net
from culvert_lab.office import Office
from culvert_lab.topology import Site
from culvert_proto import local_pb2

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


async def test_a_connection_to_the_address_alone_opens_the_tunnel_for_the_next(office: Office) -> None:
    assert not (await laptop.status(office.lab)).tunnels
    # The connection that opens the tunnel has another source address than the tunnel: it ends, and curl begins another one.
    trying = ["--connect-timeout", "20", "--retry", "5", "--retry-all-errors"]
    argv = ["curl", "-sS", *trying, "-H", f"Host: {net.WIKI_NAME}", f"http://{net.WIKI_ADDRESS}/"]
    page = await office.lab.run(Site.LAPTOP, argv)
    assert page.code == 0, page.stderr
    assert net.MARKER in page.stdout
    [tunnel] = (await laptop.status(office.lab)).tunnels
    assert (tunnel.fqdn, tunnel.state) == (net.WIKI_NAME, local_pb2.TUNNEL_STATE_UP)
