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
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from culvert_lab.free_port import free_port
from culvert_proto import agent_pb2
from culvert_service.tunnels.roaming import Peer

from .conftest import Device, World, running, settings_in
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
        udp.sendto(peer[0].encode().ljust(len(data)), peer)
def keep(one):
    while data := one.recv(2000):
        one.sendall(data)
threading.Thread(target=echo, daemon=True).start()
print("ready", flush=True)
while True:
    threading.Thread(target=keep, args=(tcp.accept()[0],), daemon=True).start()
"""


@asynccontextmanager
async def serving_in(namespace: str, address: str) -> AsyncGenerator[None]:
    service = await asyncio.create_subprocess_exec(
        "ip", "netns", "exec", namespace, sys.executable, "-c", SERVICE, address, stdout=PIPE
    )
    assert service.stdout is not None
    assert await service.stdout.readline() == b"ready\n"
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
    async with running(settings_in(tmp_path, database_url=database_url, **listens)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        yield world


async def said_in(namespace: str, *command: str) -> str:
    process = await asyncio.create_subprocess_exec("ip", "netns", "exec", namespace, *command, stdout=PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0, command
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

    def __init__(self, granted: agent_pb2.OpenTunnelResponse, address: str = OUTSIDE, port: int = 4500) -> None:
        self.sas, self.inner = granted.sas, granted.tunnel.inner_address
        self.gateway = granted.tunnel.outer_address
        self._number = 0
        self._at(address, port)

    def _at(self, address: str, port: int) -> None:
        self.socket = socket.socket(type=socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind((address, port))

    def move(self, address: str, port: int) -> None:
        self.socket.close()
        self._at(address, port)

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


async def test_a_computer_shares_its_address_with_a_gateway_and_leaves(
    reached: World, computer: Computer
) -> None:
    before = await whole(computer)
    reader, writer = await asyncio.open_connection(ADDRESS, 22)
    said = await joined(reached, computer)
    assert "beside the kernel, because this computer has one interface" in said
    assert "route 10.99.0.0/24 via 10.20.0.5" in said
    await ip("-n", f"{computer.namespace}-r", "route", "add", "10.99.0.0/24", "via", ADDRESS)
    _, it = await tunnel(reached)
    assert await it.ask() == it.inner.encode()

    # The computer's own services go on, and it is no router for anybody else.
    writer.write(b"ssh")
    assert await reader.read(100) == b"ssh"
    writer.close()
    code, said = await computer.run("status")
    assert code == 0, said
    code, said = await computer.run("leave", "--yes")
    assert code == 0, said
    assert await whole(computer) == before
    assert computer.files() == {}
