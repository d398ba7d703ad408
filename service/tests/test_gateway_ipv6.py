"""A gateway beside its kernel whose devices send ESP in UDP over IPv6, in the network of `test_gateway_beside.py`.

2001:db8:1::1, device and controller ── 2001:db8:2::2 router 2001:db8:20::1 ── eth0 2001:db8:20::5
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from culvert_lab import netns
from culvert_lab.free_port import free_port

from .conftest import World, running, settings_in, until
from .gateway_process import needs_root
from .test_gateway_beside import (
    OUTSIDE,
    WIKI,
    Tunnel,
    computer,
    lead_pool,
    router_of,
    said_in,
    watching,
    whole,
)
from .test_gateway_joins import NAME, PROGRAM, Computer, link
from .wire import ip

__all__ = ("computer",)
pytestmark = [
    pytest.mark.slow,
    needs_root,
    pytest.mark.skipif(not PROGRAM.is_file(), reason="culvert-gateway is not built: cargo build --release"),
]
OUTSIDE6, ADDRESS6 = "2001:db8:1::1", "2001:db8:20::5"


@pytest.fixture
async def six(computer: Computer) -> AsyncGenerator[Computer]:
    router = router_of(computer)
    await ip("address", "add", f"{OUTSIDE6}/128", "dev", "lo")
    await ip("address", "add", "2001:db8:2::1/64", "dev", "jout", "nodad")
    for address in ("2001:db8:2::2/64 dev out", "2001:db8:20::1/64 dev in"):
        await ip("-n", router, "address", "add", *address.split(), "nodad")
    await said_in(router, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
    await ip("-n", computer.namespace, "address", "add", f"{ADDRESS6}/64", "dev", "eth0", "nodad")
    await ip("route", "add", "2001:db8:20::/64", "via", "2001:db8:2::2")
    await ip("-n", router, "route", "add", f"{OUTSIDE6}/128", "via", "2001:db8:2::1")
    await ip("-n", computer.namespace, "-6", "route", "add", "default", "via", "2001:db8:20::1")
    yield computer
    await ip("address", "delete", f"{OUTSIDE6}/128", "dev", "lo")


@pytest.fixture
async def reached(tmp_path: Path, database_url: str, six: Computer) -> AsyncGenerator[World]:
    listens = {"rest_listen": f"{OUTSIDE}:{free_port()}", "agent_listen": f"[{OUTSIDE6}]:{free_port()}"}
    settings = settings_in(tmp_path, database_url=database_url, protected_prefixes=[], **listens)
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        yield world


async def test_devices_send_over_ipv6_to_the_shared_address(reached: World, six: Computer) -> None:
    before = await whole(six)
    await lead_pool(six)
    code, said = await six.run("join", await link(reached), "--yes")
    assert code == 0, said
    assert f"10.20.0.5 and {ADDRESS6} on eth0" in said
    assert (await reached.rest("GET", f"/gateways/{NAME}"))["address6"] == ADDRESS6
    await reached.add_wiki([NAME])
    device = await reached.enrol()
    await device.prove()
    it = Tunnel(await device.open(), OUTSIDE6)
    assert it.gateway == ADDRESS6
    assert await it.ask() == it.inner.encode()
    # A neighbour over IPv6, and a router that is replaced.
    router = netns.Inside(router_of(six))
    await router.run(it.move, "2001:db8:20::1", 4501)
    assert await it.ask() == it.inner.encode()
    router.close()
    it.move(OUTSIDE6, 4502)
    # Nothing says that the router is another one. The kernel finds out within a minute, and the watch has it ask again.
    watch = await watching(six)
    await ip("-n", router_of(six), "link", "set", "in", "address", "02:00:00:00:07:07")
    # The wiki is the same station here.
    await ip("-n", six.namespace, "neighbour", "flush", "to", WIKI, "dev", "eth0")
    began = time.monotonic()

    async def answer() -> bytes:
        try:
            return await it.ask(seconds=0.5)
        except TimeoutError:
            return b""

    await until(answer, bool, 20)
    print(f"the kernel has found the router's new MAC address after {time.monotonic() - began:.1f} s")
    watch.kill()
    await watch.wait()
    it.close()
    # The computer's own IPv6 goes on.
    await said_in(router_of(six), "ping", "-c", "1", "-W", "2", ADDRESS6)
    await reached.online(NAME)
    code, said = await six.run("doctor")
    assert code == 0, said
    await ip("-n", six.namespace, "address", "delete", f"{ADDRESS6}/64", "dev", "eth0")
    code, said = await six.run("doctor")
    assert code == 1
    assert f"eth0 has the IPv6 address {ADDRESS6} no more" in said
    await ip("-n", six.namespace, "address", "add", f"{ADDRESS6}/64", "dev", "eth0", "nodad")
    code, said = await six.run("leave", "--yes")
    assert code == 0, said
    assert set((await whole(six)).splitlines()) - set(before.splitlines()) == set()


async def test_an_address_that_passes_is_not_taken_and_none_is_asked_for(
    reached: World, six: Computer
) -> None:
    made = await link(reached)
    code, said = await six.run("join", made, "--yes", "--ipv6", "2001:db8:20::6")
    assert code == 1
    assert "no lasting address 2001:db8:20::6 on eth0" in said
    code, said = await six.run("join", made, "--yes", "--ipv6", "none")
    assert code == 0, said
    assert (await reached.rest("GET", f"/gateways/{NAME}"))["address6"] is None
