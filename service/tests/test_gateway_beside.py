"""`culvert-gateway join` beside the kernel: one interface, one address, shared with the computer's other services.

test's namespace               office's router and wiki             gateway
 203.0.113.1, device ───────── 198.51.100.2        10.20.0.1 ────── eth0 10.20.0.5/24, default route
 and controller                                    10.20.0.10       a service at TCP 22
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from culvert_lab import netns
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason, agent_pb2
from culvert_service.tunnels.roaming import Peer

from .conftest import Device, World, running, settings_in, until
from .gateway_process import needs_root
from .sealed import esp, opened
from .test_gateway_joins import NAME, PROGRAM, Computer, installed, link
from .wire import ip, udp

pytestmark = [
    pytest.mark.slow,
    needs_root,
    pytest.mark.skipif(not PROGRAM.is_file(), reason="culvert-gateway is not built: cargo build --release"),
]
OUTSIDE, ADDRESS, WIKI = "203.0.113.1", "10.20.0.5", "10.20.0.10"
# Answers datagrams with the address that they seem to come from, and keeps TCP connections.
SERVICE = """
import socket, sys, threading
udp, tcp = socket.socket(type=socket.SOCK_DGRAM), socket.create_server((sys.argv[1], 22))
udp.bind((sys.argv[1], 7))
def echo():
    while True:
        data, peer = udp.recvfrom(2000)
        udp.sendto(peer[0].encode().ljust(1472 if data[:3] == b"big" else len(data)), peer)
def keep(one):
    while data := one.recv(2000):
        one.sendall(data)
threading.Thread(target=echo, daemon=True).start()
print("ready", flush=True)
while True:
    threading.Thread(target=keep, args=(tcp.accept()[0],), daemon=True).start()
"""


OTHER_IPSEC = """
import socket, time
one = socket.socket(type=socket.SOCK_DGRAM)
one.bind(("0.0.0.0", 4500))
print("ready", flush=True)
time.sleep(60)
"""


async def in_namespace(namespace: str, code: str, *arguments: str) -> asyncio.subprocess.Process:
    """A Python program there, which has printed a line and runs until it is killed."""
    process = await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", namespace, sys.executable, "-c", code, *arguments), stdout=PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


@asynccontextmanager
async def serving_in(namespace: str, address: str) -> AsyncGenerator[None]:
    service = await in_namespace(namespace, SERVICE, address)
    yield
    service.kill()
    await service.wait()


@pytest.fixture
async def computer() -> AsyncGenerator[Computer]:
    root, starter = installed()
    gateway, router = root.name, f"{root.name}-r"
    for namespace in (gateway, router):
        await ip("netns", "add", namespace)
        await ip("-n", namespace, "link", "set", "lo", "up")
        # The link's own IPv6 address is valid at once, and changes nothing later.
        await ip("netns", "exec", namespace, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
    await ip("link", "add", "jout", "type", "veth", "peer", "name", "out", "netns", router)
    await ip("-n", router, "link", "add", "in", "type", "veth", "peer", "name", "eth0", "netns", gateway)
    await ip("address", "add", f"{OUTSIDE}/32", "dev", "lo")
    await ip("address", "add", "198.51.100.1/24", "dev", "jout")
    for address in ("198.51.100.2/24 dev out", "10.20.0.1/24 dev in", f"{WIKI}/24 dev in"):
        await ip("-n", router, "address", "add", *address.split())
    await ip("-n", gateway, "address", "add", f"{ADDRESS}/24", "dev", "eth0")
    await ip("link", "set", "jout", "up")
    for namespace, name in ((router, "out"), (router, "in"), (gateway, "eth0")):
        await ip("-n", namespace, "link", "set", name, "up")
    await ip("route", "add", "10.20.0.0/24", "via", "198.51.100.2")
    await ip("-n", router, "route", "add", "default", "via", "198.51.100.1", "src", "198.51.100.2")
    await ip("-n", gateway, "route", "add", "default", "via", "10.20.0.1")
    for namespace, forwards in ((router, 1), (gateway, 0)):
        await ip("netns", "exec", namespace, "sysctl", "-qw", f"net.ipv4.ip_forward={forwards}")
    async with serving_in(gateway, ADDRESS), serving_in(router, WIKI):
        yield Computer(root, gateway, starter)
        await (await asyncio.create_subprocess_exec(str(starter), "disable", f"sluice@{NAME}")).wait()
    for namespace in (gateway, router):
        await ip("netns", "delete", namespace)
    gone = await asyncio.create_subprocess_exec("ip", "link", "delete", "jout", stderr=DEVNULL)
    await gone.wait()
    await ip("address", "delete", f"{OUTSIDE}/32", "dev", "lo")
    shutil.rmtree(root)


@pytest.fixture
async def reached(tmp_path: Path, database_url: str, computer: Computer) -> AsyncGenerator[World]:
    listens = {f"{it}_listen": f"{OUTSIDE}:{free_port()}" for it in ("rest", "agent")}
    # Its address is in the intranet: devices would refuse it if tunnels alone led there.
    settings = settings_in(tmp_path, database_url=database_url, protected_prefixes=[], **listens)
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        yield world


async def said_in(namespace: str, *command: str, code: int = 0) -> str:
    process = await asyncio.create_subprocess_exec("ip", "netns", "exec", namespace, *command, stdout=PIPE)
    said, _ = await process.communicate()
    assert process.returncode == code, command
    return said.decode()


async def whole(computer: Computer) -> str:
    """Everything of the computer's network that a person could miss afterwards."""
    commands = (
        "nft -s list ruleset",
        "ip -details link",
        "ip address",
        "ip route show table all",
        "ip -6 route show table all",
        "ip rule",
        "sysctl -a -r ^net",
    )
    found = [await said_in(computer.namespace, *it.split()) for it in commands]
    # Counters, lifetimes and random seeds.
    passing = ("nf_conntrack_count", "valid_lft", "stable_secret", "expires", "nf_conntrack_buckets")
    return "\n".join(it for it in "\n".join(found).splitlines() if not any(word in it for word in passing))


class Tunnel:
    """A device's tunnel to the wiki, over UDP."""

    def __init__(
        self, granted: agent_pb2.OpenTunnelResponse, address: str = OUTSIDE, port: int = 4500
    ) -> None:
        self.sas, self.inner = granted.sas, granted.tunnel.inner_address
        self.gateway = granted.tunnel.outer_address
        self._number = 0
        self._at(address, port)

    def _at(self, address: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind((address, port))

    def move(self, address: str, port: int) -> None:
        self.close()
        self._at(address, port)

    def close(self) -> None:
        self.socket.close()

    async def ask(self, text: bytes = b"?" * 32, seconds: float = 5) -> bytes:
        """The wiki's answer: the address that it sees."""
        self._number += 1
        packet = udp(Peer(self.inner, 5000), Peer(WIKI, 7), text)
        self.socket.sendto(esp(self.sas.outbound, self._number, packet), (self.gateway, 4500))
        async with asyncio.timeout(seconds):
            answer = await asyncio.get_running_loop().sock_recv(self.socket, 2000)
        return opened(self.sas.inbound, answer)[28:].strip()


async def tunnel(world: World) -> tuple[Device, Tunnel]:
    await world.add_wiki([NAME])
    device = await world.enrol()
    await device.prove()
    return device, Tunnel(await device.open())


async def joined(world: World, computer: Computer, *options: str) -> str:
    code, said = await computer.run("join", await link(world), "--yes", *options)
    assert code == 0, said
    return said


def router_of(computer: Computer) -> str:
    return f"{computer.namespace}-r"


async def watching(computer: Computer) -> asyncio.subprocess.Process:
    """The gateway's second unit."""
    return await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", computer.namespace, str(PROGRAM), "--root", str(computer.root)),
        *("--systemctl", str(computer.systemctl), "watch", NAME),
    )


async def lead_pool(computer: Computer) -> None:
    await ip("-n", router_of(computer), "route", "add", "10.99.0.0/24", "via", ADDRESS)


async def test_a_computer_shares_its_address_with_a_gateway_and_leaves(
    reached: World, computer: Computer
) -> None:
    before = await whole(computer)
    reader, writer = await asyncio.open_connection(ADDRESS, 22)
    said = await joined(reached, computer)
    assert "beside the kernel, because this computer has one interface" in said
    assert "10.20.0.1 does not send packets for the pool 10.99.0.0/24 to this computer" in said
    assert "ip route add 10.99.0.0/24 via 10.20.0.5" in said
    code, said = await computer.run("doctor")
    assert code == 1, said
    assert "FAIL  the router sends packets for the pool to this computer" in said
    silent = (
        "table ip silent { chain in { type filter hook input priority 0; udp dport { 53, 33434 } drop; }; }"
    )
    await said_in(router_of(computer), "nft", silent)
    code, said = await computer.run("doctor")
    assert code == 0, said
    assert (
        "note  whether the router 10.20.0.1 has the route 10.99.0.0/24 via 10.20.0.5 cannot be told" in said
    )
    assert "the router sends packets for the pool" not in said
    await said_in(router_of(computer), "nft", "delete table ip silent")
    await lead_pool(computer)
    code, said = await computer.run("doctor")
    assert code == 0, said
    assert "no packet of a device has come yet" in said
    device, it = await tunnel(reached)
    assert await it.ask() == it.inner.encode()

    # A device that is a neighbour, and packets that are too big: the wiki is told by an address that it can reach.
    router = netns.Inside(router_of(computer))
    await router.run(it.move, "10.20.0.1", 4501)
    assert await it.ask() == it.inner.encode()
    with pytest.raises(TimeoutError):
        await it.ask(b"big", seconds=0.5)
    assert "mtu 14" in await said_in(router_of(computer), "ip", "route", "get", it.inner)
    router.close()

    # The computer's own services go on, and it routes for nobody else.
    writer.write(b"ssh")
    assert await reader.read(100) == b"ssh"
    writer.close()
    rule = "type filter hook prerouting priority -300; iifname in ip daddr 192.0.2.1 counter"
    await said_in(router_of(computer), "nft", f"table ip back {{ chain in {{ {rule}; }}; }}")
    await ip("-n", router_of(computer), "route", "add", "192.0.2.0/24", "via", ADDRESS)
    await said_in(router_of(computer), "ping", "-c", "1", "-W", "1", "192.0.2.1", code=1)
    assert "packets 0" in await said_in(router_of(computer), "nft", "list", "table", "ip", "back")
    code, said = await computer.run("status")
    assert code == 0, said

    # Stopped, as before a new start of the computer: nothing is left. Started: all is there.
    unit = (str(computer.systemctl), "disable", f"sluice@{NAME}")
    await said_in(computer.namespace, *unit)
    assert await whole(computer) == before
    await said_in(computer.namespace, str(computer.systemctl), "enable", f"sluice@{NAME}")
    await reached.online(NAME)
    it.close()
    it = Tunnel(await device.open())
    assert await it.ask() == it.inner.encode()
    code, said = await computer.run("leave", "--yes")
    assert code == 0, said
    assert await whole(computer) == before
    assert computer.files() == {}


async def test_masquerading_needs_no_route_and_a_port_forward_another_address(
    reached: World, computer: Computer
) -> None:
    rules = """table ip nat {
      chain in { type nat hook prerouting priority -100; udp dport 4500 ip daddr 198.51.100.2 dnat to 10.20.0.5; }
      chain out { type nat hook postrouting priority 100; oifname out masquerade; }
    }"""
    await said_in(router_of(computer), "nft", rules)
    await ip("route", "delete", "10.20.0.0/24")
    said = await joined(reached, computer, "--masquerade", "--public-address", "198.51.100.2")
    assert "10.20.0.5 on eth0, which devices know as 198.51.100.2" in said
    assert "intranet hosts see 10.20.0.5 in place of it" in said
    _, it = await tunnel(reached)
    assert it.gateway == "198.51.100.2"
    assert await it.ask() == ADDRESS.encode()

    # Other programs change the kernel, and the router another MAC address.
    watch = await watching(computer)
    await said_in(computer.namespace, "nft", "flush ruleset")
    await ip("-n", computer.namespace, "route", "delete", "10.99.0.0/24")
    await ip("-n", router_of(computer), "link", "set", "in", "address", "02:00:00:00:07:07")
    await ip("-n", computer.namespace, "neighbour", "flush", "dev", "eth0")

    async def answer() -> bytes:
        try:
            return await it.ask(seconds=0.5)
        except TimeoutError:
            return b""

    await until(answer, lambda found: found == ADDRESS.encode(), 30)
    await ip("-n", router_of(computer), "address", "add", "10.20.0.254/24", "dev", "in")
    await ip("-n", computer.namespace, "route", "replace", "default", "via", "10.20.0.254")
    rules = ("nft", "list", "table", "netdev", "culvert-0")
    other = "fwd ip to 10.20.0.254"
    await until(lambda: said_in(computer.namespace, *rules), lambda found: other in found, 30)
    assert await answer() == ADDRESS.encode()
    watch.kill()
    await watch.wait()

    # An administrator's firewall that drops what it does not know: ESP comes before it, forwarded packets do not.
    rules = """table inet filter {
      chain input { type filter hook input priority 0; policy drop; ct state established accept; tcp dport 22 accept; }
      chain forward { type filter hook forward priority 0; policy drop; }
    }"""
    await said_in(computer.namespace, "nft", rules)
    assert await answer() == b""
    code, said = await computer.run("doctor")
    assert code == 0, said
    assert "must accept those from and to culvert-l0" in said
    assert "packets out of tunnels were dropped by a firewall" in said
    await said_in(computer.namespace, "nft", "add rule inet filter forward iifname culvert-l0 accept")
    await said_in(computer.namespace, "nft", "add rule inet filter forward oifname culvert-l0 accept")
    assert await answer() == ADDRESS.encode()


async def test_what_cannot_work_beside_the_kernel_is_said_and_changes_nothing(
    reached: World, computer: Computer
) -> None:
    before, made = await whole(computer), await link(reached)

    async def refused(*arguments: str, by: str = made) -> str:
        code, said = await computer.run("join", by, "--yes", *arguments)
        assert code in (1, 2), said
        assert await whole(computer) == before
        assert computer.files() == {}
        return said

    assert "no Ethernet interface ppp0" in await refused("--beside", "ppp0")
    assert "has no address 10.20.0.6" in await refused("--wan-address", "10.20.0.6/24")
    assert "cannot be used with" in await refused("--beside", "eth0", "--lan", "eth0")
    assert "overlaps" in await refused("--intranet", "10.0.0.0/8")
    other = await in_namespace(computer.namespace, OTHER_IPSEC)
    assert "has UDP port 4500" in await refused()
    other.kill()
    await other.wait()
    (computer.root / "bin").mkdir()
    (computer.root / "bin/ip").symlink_to(shutil.which("ip") or "")
    without_nft = ("env", f"PATH={computer.root}/bin", str(PROGRAM), "--root", str(computer.root))
    process = await asyncio.create_subprocess_exec(
        *("/usr/bin/env", "ip", "netns", "exec", computer.namespace, *without_nft, "join", made, "--yes"),
        stderr=PIPE,
    )
    _, complaint = await process.communicate()
    assert b"apt install nftables" in complaint
    assert await whole(computer) == before
    assert "overlaps" in await refused(by=await link(reached, "10.20.0.128/25"))


async def lease(computer: Computer, before: str, now: str, router: str) -> None:
    """The interface has another address, as after a new DHCP lease."""
    await ip("-n", computer.namespace, "address", "delete", before, "dev", "eth0")
    await ip("-n", computer.namespace, "address", "add", now, "dev", "eth0")
    await ip("-n", computer.namespace, "route", "add", "default", "via", router, "onlink", "dev", "eth0")


async def test_a_new_address_of_the_computer_is_followed(reached: World, computer: Computer) -> None:
    await joined(reached, computer, "--masquerade")
    device, it = await tunnel(reached)
    assert await it.ask() == ADDRESS.encode()
    it.close()
    await lease(computer, f"{ADDRESS}/24", "10.20.0.55/24", "10.20.0.1")
    code, said = await computer.run("doctor")
    assert code == 1, said
    assert "eth0 has the address 10.20.0.55 in place of 10.20.0.5" in said
    watch, began = await watching(computer), time.monotonic()

    async def shown() -> dict[str, Any]:
        return await reached.rest("GET", f"/gateways/{NAME}")

    await until(shown, lambda found: found["address"] == "10.20.0.55")
    told = time.monotonic() - began

    async def open_again() -> Any:
        try:
            return await device.open()
        except CulvertError as error:
            # The connection from the old address counts as online until its end is noticed.
            if error.reason is not Reason.GATEWAY_DOWN:
                raise
            await asyncio.sleep(1)
            return None

    again = await until(open_again, lambda found: found is not None, 60)
    print(f"address told after {told:.1f} s, opened after {time.monotonic() - began:.1f} s")
    it = Tunnel(again)
    assert it.gateway == "10.20.0.55"
    assert await it.ask() == b"10.20.0.55"
    code, said = await computer.run("doctor")
    assert code == 0, said
    actions = [line["action"] for line in await reached.rest("GET", "/audit")]
    assert "gateway.address" in actions

    # In another network the intranet is another one, and no new address of the gateway's makes that good.
    await lease(computer, "10.20.0.55/24", "10.21.0.5/24", "10.20.0.1")
    code, said = await computer.run("doctor")
    assert code == 1, said
    assert "10.21.0.5, which is not in the intranet's network 10.20.0.0/24, as 10.20.0.55 was" in said
    await asyncio.sleep(6)
    assert (await shown())["address"] == "10.20.0.55"
    await lease(computer, "10.21.0.5/24", "10.20.0.55/24", "10.20.0.1")
    await until(shown, lambda found: found["state"] == "online", 60)
    watch.kill()
    await watch.wait()
    code, said = await computer.run("leave", "--yes")
    assert code == 0, said
    assert computer.files() == {}


async def test_an_address_that_the_controller_refuses_is_said(reached: World, computer: Computer) -> None:
    await joined(reached, computer)
    other = {"address": "10.20.0.55", "p4runtime": None, "pool": "10.98.0.0/24"}
    ports = {"wan": {"port": 1, "mac": "02:00:00:00:01:01", "next_hop_mac": "02:00:00:00:01:02"}}
    ports["lan"] = {"port": 2, "mac": "02:00:00:00:02:01", "address": "10.97.0.1", "prefix": "10.97.0.0/24"}
    await reached.rest("POST", "/gateways", {"name": "gw-rome", **other, **ports})
    await lease(computer, f"{ADDRESS}/24", "10.20.0.55/24", "10.20.0.1")
    watch = await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", computer.namespace, str(PROGRAM), "--root", str(computer.root)),
        *("--systemctl", str(computer.systemctl), "watch", NAME),
        stdout=PIPE,
    )
    assert watch.stdout is not None
    said = (await watch.stdout.readline()).decode()
    assert (
        "The controller does not take the new address 10.20.0.55 of eth0: A gateway that devices reach"
        in said
    )
    assert "Remedy: " in (await watch.stdout.readline()).decode()
    watch.kill()
    await watch.wait()
    assert (await reached.rest("GET", f"/gateways/{NAME}"))["address"] == ADDRESS
