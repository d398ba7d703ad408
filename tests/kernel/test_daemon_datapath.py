"""The daemon's choice of a datapath, on a kernel with IPsec, with sluice as its gateway."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from ipaddress import ip_address, ip_network

import pytest
from culvert_client.config import Config, DatapathChoice, Endpoint
from culvert_client.core.client_events import Desired, Measured, SoftLimitReached
from culvert_client.core.grant import Sa, Sas, Spi, Tunnel, TunnelId
from culvert_client.moves import follow
from culvert_client.platform.linux.daemon import PLATFORM
from culvert_client.platform.linux.datapath import Kernel, Userspace, open_datapath
from culvert_lab.netns import Inside
from culvert_proto.sa import Limits
from linux_esp.controller import Controller
from linux_esp.entries import (
    GATEWAY,
    INNER,
    OFFICE,
    OFFICE_PREFIX,
    PEER,
    WAN,
    Pair,
    entry,
    inbound,
    outbound,
    policy,
    prefix,
)
from linux_esp.laptop import DEVICE, GCM, NUMBERS, PORT, Laptop
from linux_esp.site import Site, waited
from linux_esp.traffic import Exchange, ping
from linux_esp.xfrm import ip

pytestmark = pytest.mark.slow

UNLIMITED = Limits()
TUNNEL = TunnelId("t1")


@pytest.mark.parametrize("choice", DatapathChoice, ids=str)
def test_the_kernel_carries_unless_forbidden_also_after_a_crash(
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
        path, measured, limit = site.peer.call(asyncio.run, _used(choice, pair))
        assert isinstance(path, Userspace if choice is DatapathChoice.USERSPACE else Kernel)
        assert path.name == ("userspace" if choice is DatapathChoice.USERSPACE else "kernel")
        usage = measured.usage[TUNNEL]
        assert (usage.packets_in, usage.packets_out) == (3, 3)
        assert limit == SoftLimitReached(TUNNEL, pair.spi_in)
        controller.delete(entries)


def test_a_move_is_noticed_and_followed_under_running_traffic(site: Site, controller: Controller) -> None:
    number, moved = next(NUMBERS), "192.0.2.3"
    pair = Pair(GCM, tunnel=number, generation=number, in_udp=True, peer_port=PORT)
    entries = [*inbound(pair, 1400), *outbound(pair), *policy(pair, 1400)]
    entries.append(entry("route", {"dst": str(prefix(moved))}, "via", nexthop_id=WAN))
    controller.insert(entries)
    daemon, opened, ended = Inside("peer"), threading.Event(), threading.Event()
    ip([f"route add default via {GATEWAY[4]}"], "peer")
    try:
        with site.without_inner_addresses(), ThreadPoolExecutor(1) as apart:
            running = apart.submit(daemon.call, asyncio.run, _followed(pair, opened, ended))
            try:
                assert opened.wait(20)
                with Exchange(site.peer, site.office, INNER[4], OFFICE[4]) as exchange:
                    assert waited(lambda: bool(exchange.answered))
                    subnet = "route replace 192.0.2.0/24 dev eth0 src"
                    ip([f"address add {moved}/24 dev eth0", f"{subnet} {moved}"], "peer")
                    try:
                        _goes_on(exchange, moved)
                    finally:
                        ip([f"{subnet} {PEER[4]}", f"address delete {moved}/24 dev eth0"], "peer")
                    _goes_on(exchange, PEER[4])
            finally:
                ended.set()
            running.result()
    finally:
        ip(["route delete default"], "peer")
        controller.delete(entries)


def _goes_on(exchange: Exchange, own: str) -> None:
    """The tunnel leaves from this address, and what is sent from now on is answered there."""
    assert waited(lambda: f"src {own} dst {GATEWAY[4]}" in ip(["xfrm state"], "peer"))
    sent = exchange.sent
    assert waited(lambda: any(number > sent for number in set(exchange.answered)))


async def _followed(pair: Pair, opened: threading.Event, ended: threading.Event) -> None:
    path = await open_datapath(_settings(DatapathChoice.KERNEL), print)
    try:
        await path.apply(_desired(pair))
        networks, slept = PLATFORM.networks, PLATFORM.process.slept
        following = asyncio.create_task(follow(networks, slept, path.on_roam, lambda: None))
        # The daemon must know its place before it can notice another.
        await asyncio.sleep(0.5)
        opened.set()
        await asyncio.to_thread(ended.wait)
        following.cancel()
    finally:
        await path.close()


async def _used(choice: DatapathChoice, pair: Pair) -> tuple[object, Measured, SoftLimitReached]:
    path = await open_datapath(_settings(choice), print)
    try:
        limit = asyncio.get_running_loop().create_future()
        path.on_soft_limit(limit.set_result)
        await path.apply(_desired(pair))
        assert await asyncio.to_thread(ping, "peer", OFFICE[4]) == 3
        return path, await path.measure(), await asyncio.wait_for(limit, 20)
    finally:
        await path.close()


def _settings(choice: DatapathChoice) -> Config:
    paths = asdict(PLATFORM.paths)
    upstream = Endpoint("192.0.2.53", 53)
    return Config(**paths, dns_upstream=upstream, tun_name=DEVICE, udp_port=PORT, datapath=choice)


def _desired(pair: Pair) -> Desired:
    prefix = ip_network(OFFICE_PREFIX[4])
    tunnel = Tunnel(
        TUNNEL, "wiki", "wiki.corp.example", "gw", ip_address(INNER[4]), (prefix,), ip_address(GATEWAY[4]), 4500, 0, 1400
    )  # fmt: skip
    opening = Sa(Spi(pair.spi_out), pair.key_out, 1024, UNLIMITED, UNLIMITED)
    sealing = Sa(Spi(pair.spi_in), pair.key_in, 1024, Limits(packets=2), UNLIMITED)
    return Desired(frozenset({prefix}), (Sas(tunnel, (opening,), sealing),))
