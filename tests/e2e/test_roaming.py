"""A laptop that moves between two homes behind NATs, under a running download."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest
from culvert_lab import laptop
from culvert_lab import topology as net
from culvert_lab.homes import homes
from culvert_lab.mobile import DNS64, mobile, only_mobile
from culvert_lab.office import Office
from culvert_proto import local_pb2

sys.path.append(str(Path(__file__).parents[1] / "perf"))
import downloads

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


async def test_a_download_goes_on_through_another_nat_and_loses_nothing(office: Office) -> None:
    assert (await office.fetch()).code == 0
    [before] = (await laptop.status(office.lab)).tunnels
    async with homes() as home:
        async with downloads.running(office.lab) as download:
            for _ in range(2):
                await download.first_after(time.perf_counter())
                await home.move()
                await download.first_after(time.perf_counter())
        assert download.whole
        [tunnel] = (await laptop.status(office.lab)).tunnels
        # The same tunnel, and not a new one.
        assert (tunnel.state, tunnel.since_ms) == (local_pb2.TUNNEL_STATE_UP, before.since_ms)
        # The controller is reached from there, too.
        opened = await office.culvert("open", await office.add_resource("roam"))
        assert opened.code == 0, opened.stderr


async def test_a_download_goes_on_where_there_is_ipv6_alone(office: Office) -> None:
    await office.daemon.stop()
    async with mobile(office.lab):
        office.daemon = await laptop.start_daemon(office.lab, "culvertd-mobile", upstream=f"[{DNS64}]:53")
        assert (await office.fetch()).code == 0
        # Late packets of the earlier download may have opened the other name at that address.
        before = await laptop.tunnel(office.lab, net.WIKI_NAME)
        far = (await laptop.status(office.lab)).gateways[0].rtt_us
        another = await office.add_resource("mobile")
        async with downloads.running(office.lab) as download:
            await download.first_after(time.perf_counter())
            with only_mobile():
                await download.first_after(time.perf_counter())
                # A NAT64 address made by the network's name server would lead past the tunnel.
                opened = await office.fetch(another)
                assert opened.code == 0, opened.stderr
                while (await laptop.status(office.lab)).gateways[0].rtt_us in (0, far):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            await download.first_after(time.perf_counter())
        assert download.whole
        found = {tunnel.fqdn: tunnel for tunnel in (await laptop.status(office.lab)).tunnels}
        assert found[before.fqdn].since_ms == before.since_ms
    await office.daemon.stop()
    office.daemon = await laptop.start_daemon(office.lab, "culvertd-again")
