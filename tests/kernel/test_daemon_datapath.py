"""The daemon's choice of a datapath, on a kernel with IPsec, with sluice as its gateway."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address, ip_network

import pytest
from culvert_client.backend import Kernel, Userspace, open_datapath
from culvert_client.config import Config, DatapathChoice, Endpoint
from culvert_client.core.client_events import Desired, Measured, SaWorn
from culvert_client.core.grant import Limits, Sa, Sas, Spi, Tunnel, TunnelId
from linux_esp.controller import Controller
from linux_esp.entries import GATEWAY, INNER, OFFICE, OFFICE_PREFIX, Pair, inbound, outbound, policy
from linux_esp.laptop import DEVICE, GCM, NUMBERS, PORT, Laptop
from linux_esp.site import Site
from linux_esp.traffic import ping

pytestmark = pytest.mark.slow

UNLIMITED = Limits()
TUNNEL = TunnelId("t1")


@pytest.mark.parametrize("choice", DatapathChoice, ids=str)
def test_the_kernel_carries_where_it_can_and_nobody_forbids_it_also_after_a_crash(
    site: Site, controller: Controller, choice: DatapathChoice
) -> None:
    with site.without_inner_addresses():
        killed = Laptop(site, controller, NUMBERS)
        killed.block()
        killed.crash()
        number = next(NUMBERS)
        pair = Pair(GCM, tunnel=number, generation=number, in_udp=True, peer_port=PORT)
        entries = [*inbound(pair, 1400), *outbound(pair), *policy(pair, 1400)]
        controller.insert(entries)
        path, measured, worn = site.peer.call(asyncio.run, _used(choice, pair))
        assert isinstance(path, Userspace if choice is DatapathChoice.USERSPACE else Kernel)
        assert path.name == ("userspace" if choice is DatapathChoice.USERSPACE else "kernel")
        usage = measured.usage[TUNNEL]
        assert (usage.packets_in, usage.packets_out) == (3, 3)
        assert worn == SaWorn(TUNNEL, pair.spi_in)
        controller.delete(entries)


async def _used(choice: DatapathChoice, pair: Pair) -> tuple[object, Measured, SaWorn]:
    settings = Config(Endpoint("192.0.2.53", 53), tun_name=DEVICE, udp_port=PORT, datapath=choice)
    path = await open_datapath(settings)
    try:
        worn = asyncio.get_running_loop().create_future()
        path.on_soft_limit(worn.set_result)
        await path.apply(_desired(pair))
        assert await asyncio.to_thread(ping, "peer", OFFICE[4]) == 3
        return path, await path.measure(), await asyncio.wait_for(worn, 20)
    finally:
        await path.close()


def _desired(pair: Pair) -> Desired:
    prefix = ip_network(OFFICE_PREFIX[4])
    tunnel = Tunnel(
        TUNNEL, "wiki", "wiki.corp.example", "gw", ip_address(INNER[4]), (prefix,), ip_address(GATEWAY[4]), 4500, 0, 1400
    )  # fmt: skip
    opening = Sa(Spi(pair.spi_out), pair.key_out, 1024, UNLIMITED, UNLIMITED)
    sealing = Sa(Spi(pair.spi_in), pair.key_in, 1024, Limits(packets=2), UNLIMITED)
    return Desired(frozenset({prefix}), (Sas(tunnel, (opening,), sealing),))
