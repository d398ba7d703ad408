"""Gateways that connect to the controller: sluice behind a NAT, and everybody who may not.

device ── UDP ──────────────────────────────────────────► sluice ◄── wiki
controller ◄── TLS ── NAT: only outgoing connections ─────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from culvert_lab import netns
from culvert_service.gateways.dialled import LOST_SECONDS
from culvert_service.pki.authority import Authority, PrivateKey
from sqlalchemy import text

from .conftest import Device, World, authority, running, settings_in, until
from .gateway_process import SLUICE, dialling, needs_root, unpack
from .test_restart import exchange
from .wire import Wires, ip

pytestmark = [pytest.mark.slow, needs_root]

ALPN = "culvert-p4runtime"
CONTROLLER, OUTSIDE = "192.0.2.1", "192.0.2.2"
FORGOTTEN_WITHIN_SECONDS = 15.0


class Nat:
    """A gateway's namespace behind a router that masquerades and lets nothing in."""

    def __init__(self) -> None:
        number = os.getpid() % 10**6
        self.router, self.gateway, self._up = f"cvnat{number}", f"cvgw{number}", f"cvu{number}"

    async def __aenter__(self) -> Nat:
        for name in (self.router, self.gateway):
            netns.create(name)
        await ip("link", "add", self._up, "type", "veth", "peer", "name", "outer", "netns", self.router)
        await ip("address", "add", f"{CONTROLLER}/24", "dev", self._up)
        await ip("link", "set", self._up, "up")
        await ip(
            "-n",
            self.router,
            "link",
            "add",
            "inner",
            "type",
            "veth",
            "peer",
            "name",
            "mgmt",
            "netns",
            self.gateway,
        )
        for name, device, address in (
            (self.router, "outer", f"{OUTSIDE}/24"),
            (self.router, "inner", "10.9.0.1/24"),
            (self.gateway, "mgmt", "10.9.0.2/24"),
        ):
            await ip("-n", name, "address", "add", address, "dev", device)
            await ip("-n", name, "link", "set", device, "up")
        await ip("-n", self.gateway, "route", "add", "default", "via", "10.9.0.1")
        await self.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        await self.run(
            "nft",
            "add table ip nat; add chain ip nat out { type nat hook postrouting priority 100; };"
            "add rule ip nat out oifname outer masquerade;"
            "add chain ip nat through { type filter hook forward priority 0; policy drop; };"
            "add rule ip nat through iifname inner accept;"
            "add rule ip nat through ct state established accept;"
            "add chain ip nat to { type filter hook input priority 0; policy drop; };"
            "add chain ip nat lost { type filter hook forward priority -10; }",
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await ip("link", "delete", self._up)
        for name in (self.router, self.gateway):
            netns.delete(name)

    async def run(self, *command: str) -> str:
        """Run a program in the router."""
        process = await asyncio.create_subprocess_exec(
            "ip", "netns", "exec", self.router, *command, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, command
        return said.decode()

    async def give(self, wires: Wires) -> None:
        for name in wires.names:
            await ip("link", "set", name, "netns", self.gateway)
            await ip("-n", self.gateway, "link", "set", name, "up")

    async def source_port(self, port: int) -> int:
        """The port of the gateway's open connection to the controller's agent port."""
        process = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", self.gateway, "ss", "-Htn", "state", "established"),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
        ends = [line.split()[2:4] for line in said.decode().splitlines()]
        [source] = [int(here.rpartition(":")[2]) for here, there in ends if there.endswith(f":{port}")]
        return source


def agent_port(world: World) -> int:
    return int(world.settings.agent_listen.rpartition(":")[2])


@pytest.mark.long
async def test_through_a_nat_no_packet_is_lost_while_connections_are(
    wires: Wires, tmp_path: Path, database_url: str
) -> None:
    async with AsyncExitStack() as stack:
        nat = await stack.enter_async_context(Nat())
        await nat.give(wires)
        port = 18444
        settings = settings_in(tmp_path, database_url=database_url, agent_listen=f"{CONTROLLER}:{port}")
        world = await stack.enter_async_context(running(settings))
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        await world.add_gateway("gw-berlin", 0, p4runtime=None)
        await world.add_wiki(["gw-berlin"])
        unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
        inside = ("ip", "netns", "exec", nat.gateway)
        target = f"{CONTROLLER}:{port}"
        await stack.enter_async_context(dialling(tmp_path / "gateway", wires.names, target, inside=inside))
        await world.online("gw-berlin")
        device = await world.enrol()
        await device.prove()
        opened = await device.open()
        enough = asyncio.Event()
        traffic = asyncio.create_task(exchange(wires, opened.sas, enough))
        # The NAT forgets the connection, and says nothing.
        forgotten = await nat.source_port(port)
        for direction in ("sport", "dport"):
            await nat.run("nft", f"add rule ip nat lost tcp {direction} {forgotten} drop")
        began = time.monotonic()
        await world.online("gw-berlin", wanted="offline")
        await world.online("gw-berlin")
        assert time.monotonic() - began < FORGOTTEN_WITHIN_SECONDS
        # The connection is reset.
        await nat.run(
            "nft", f"add rule ip nat lost tcp sport {await nat.source_port(port)} reject with tcp reset"
        )
        await world.online("gw-berlin", wanted="offline")
        await world.online("gw-berlin")
        assert not traffic.done(), traffic
        enough.set()
        assert await traffic > 100
        found = await world.rest("GET", "/gateways/gw-berlin/entries")
        assert {entry["standing"] for entry in found["entries"]} == {"held"}


@asynccontextmanager
async def dialled(
    world: World, certificate: PrivateKey, protocols: tuple[str, ...] = (ALPN,), source: str = "127.0.0.1"
) -> AsyncGenerator[asyncio.StreamReader]:
    """A connection to the agent port, without what follows TLS. Raises OSError."""
    context = ssl.create_default_context(cadata=authority(world, "infrastructure").pem.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(list(protocols))
    file = world.settings.state_dir.parent / f"{certificate.certificate.serial}.pem"
    file.write_bytes(certificate.key_pem + certificate.certificate.pem)
    context.load_cert_chain(file)
    file.unlink()
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", agent_port(world), ssl=context, local_addr=(source, 0)
    )
    try:
        yield reader
    finally:
        writer.transport.abort()


async def stays(reader: asyncio.StreamReader, seconds: float = 0.5) -> bool:
    """Whether the controller leaves the connection open. In TLS 1.3 a refusal comes after the client's handshake."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            try:
                # A link of the controller begins HTTP/2.
                while await reader.read(1 << 10):
                    continue
            except OSError:
                pass
            return False
    return True


async def admitted(world: World, certificate: PrivateKey, protocols: tuple[str, ...] = (ALPN,)) -> bool:
    try:
        async with dialled(world, certificate, protocols) as reader:
            return await stays(reader)
    except OSError:
        return False


async def test_only_a_registered_gateway_that_dials_may_connect(world: World, tmp_path: Path) -> None:
    gateways, devices = authority(world, "gateway"), authority(world, "device")
    infrastructure = authority(world, "infrastructure")
    own = gateways.issue_gateway("gw-berlin", ())
    assert not await admitted(world, own), "not registered yet"
    await world.add_gateway("gw-berlin", 0, p4runtime=None)
    await world.add_gateway("gw-paris", 9, number=2)
    assert await admitted(world, own)
    for why, certificate in {
        "has an address": gateways.issue_gateway("gw-paris", ()),
        "unknown": gateways.issue_gateway("gw-rome", ()),
        "a device's": devices.issue_p4runtime_client(),
        "a device's with its name": devices.issue_gateway("gw-berlin", ()),
        "a controller's": infrastructure.issue_p4runtime_client(),
        "another use": gateways.issue_p4runtime_client(),
        "two names": gateways.issue_server("gw-berlin", ["gw-berlin", "gw-rome"]),
        "of the controllers' CA": infrastructure.issue_server("gw-berlin", ["gw-berlin"]),
        "another CA": another_gateway_authority(tmp_path).issue_gateway("gw-berlin", ()),
    }.items():
        assert not await admitted(world, certificate), why
    # Without the protocol it would be a device, which it is not.
    for protocols in ((), ("h2",), ("http/1.1",)):
        assert not await admitted(world, own, protocols)
    assert await admitted(world, own, ("h2", ALPN))
    device = devices.issue_p4runtime_client()
    assert await admitted(world, device, ("h2",))
    assert not await admitted(world, device, ("h2", ALPN))


def another_gateway_authority(directory: Path) -> Authority:
    (directory / "other").mkdir()
    return Authority.load(directory / "other", "gateway")


async def test_a_newer_connection_replaces_the_older_one_of_that_gateway(world: World) -> None:
    for number, name in enumerate(("gw-berlin", "gw-paris"), 1):
        await world.add_gateway(name, 0, number, p4runtime=None)
    berlin, paris = (
        authority(world, "gateway").issue_gateway(name, ()) for name in ("gw-berlin", "gw-paris")
    )
    async with dialled(world, berlin) as first, dialled(world, paris) as other:
        assert await stays(first)
        async with dialled(world, berlin) as second:
            assert not await stays(first, 5)
            assert await stays(second)
            assert await stays(other)


async def test_the_connection_of_a_removed_gateway_ends_at_once(world: World) -> None:
    await world.add_gateway("gw-berlin", 0, p4runtime=None)
    own = authority(world, "gateway").issue_gateway("gw-berlin", ())
    async with dialled(world, own) as reader:
        assert await stays(reader)
        await world.rest("DELETE", "/gateways/gw-berlin")
        assert not await stays(reader, 2)
    assert not await admitted(world, own)
    # Its successor's registration is too recent for the clocks to tell; an hour later it is not.
    await world.add_gateway("gw-berlin", 0, p4runtime=None)
    assert await admitted(world, own)
    await register_later(world)
    assert not await admitted(world, own)


async def register_later(world: World) -> None:
    async with world.database.begin() as session:
        await session.execute(text("UPDATE gateways SET created_at = now() + interval '1 hour'"))
    # Until the controller has read it.
    await asyncio.sleep(2 * world.settings.lease_seconds / 3)


async def test_a_thousand_strangers_keep_no_gateway_out(world: World) -> None:
    await world.add_gateway("gw-berlin", 0, p4runtime=None)
    own = authority(world, "gateway").issue_gateway("gw-berlin", ())
    strangers: list[socket.socket] = []
    for number in range(1000):
        stranger = socket.create_connection(
            ("127.0.0.1", agent_port(world)), source_address=(f"127.0.1.{1 + number % 100}", 0)
        )
        # The head of a ClientHello, and no more.
        with contextlib.suppress(OSError):
            stranger.send(b"\x16\x03\x01\x02\x00\x01")
        strangers.append(stranger)
    try:
        async with dialled(world, own) as reader:
            async with asyncio.timeout(5):
                assert (await reader.read(1 << 10)).startswith(b"PRI * HTTP/2.0")
    finally:
        for stranger in strangers:
            stranger.close()


async def test_only_a_controller_that_has_the_connection_owns_the_gateway(
    wires: Wires, tmp_path: Path, database_url: str
) -> None:
    one, two = (
        settings_in(tmp_path, database_url=database_url, controller_name=name) for name in ("one", "two")
    )
    async with running(one) as first, running(two) as second:
        await first.add_gateway("gw-berlin", 0, p4runtime=None)
        found: dict[str, Any] = await first.rest("GET", "/gateways/gw-berlin")
        assert (found["owner"], found["p4runtime"]) == ("", None)
        assert "has not been connected to a controller since" in found["reason"]
        unpack(await first.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
        async with dialling(tmp_path / "gateway", wires.names, f"localhost:{agent_port(second)}"):
            await first.online("gw-berlin")
            found = await first.rest("GET", "/gateways/gw-berlin")
            assert found["owner"] == "two"
        lost = time.monotonic()
        found = await until(
            lambda: first.rest("GET", "/gateways/gw-berlin"), lambda found: found["owner"] == ""
        )
        assert LOST_SECONDS - 1 < time.monotonic() - lost < LOST_SECONDS + 3
        assert "Check that it runs" in found["reason"]
        # A gateway that is connected to both fails over at once.
        async with (
            dialling(
                tmp_path / "gateway",
                wires.names,
                f"127.0.0.1:{agent_port(first)}",
                f"127.0.0.1:{agent_port(second)}",
            ),
        ):
            await first.online("gw-berlin")


async def test_no_click_is_refused_while_a_switch_is_handed_over(
    wires: Wires, tmp_path: Path, database_url: str
) -> None:
    """`sluice reload` ends the connection; the new process opens it again."""
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(running(settings_in(tmp_path, database_url=database_url)))
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        await world.add_gateway("gw-berlin", 0, p4runtime=None)
        await world.add_wiki(["gw-berlin"])
        unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
        control = str(tmp_path / "control")
        target = f"127.0.0.1:{agent_port(world)}"
        await stack.enter_async_context(
            dialling(tmp_path / "gateway", wires.names, target, more=("--control", control))
        )
        await world.online("gw-berlin")
        device = await world.enrol()
        await device.prove()
        successor = 0
        for _ in range(3):
            # The session is steady by then.
            await _click(device, 2.5)
            reload = await asyncio.create_subprocess_exec(
                *(str(SLUICE), "reload", "--control", control), stdout=asyncio.subprocess.PIPE
            )
            await _click(device, 1.5)
            said, _ = await reload.communicate()
            assert reload.returncode == 0
            successor = int(said.split()[1])
        os.kill(successor, signal.SIGKILL)


async def test_a_click_after_a_controllers_restart_waits_for_the_gateway(
    wires: Wires, tmp_path: Path, database_url: str
) -> None:
    """The device is back before the gateway is, which connects itself, with growing delays."""
    settings = settings_in(tmp_path, database_url=database_url)
    async with AsyncExitStack() as stack:
        async with running(settings) as world:
            await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
            await world.add_gateway("gw-berlin", 0, p4runtime=None)
            await world.add_wiki(["gw-berlin"])
            unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
            target = f"127.0.0.1:{agent_port(world)}"
            await stack.enter_async_context(dialling(tmp_path / "gateway", wires.names, target))
            await world.online("gw-berlin")
            device = await world.enrol()
            await device.prove()
        # The gateway waits 0.5 s to 1 s before its next attempt.
        await asyncio.sleep(1.5)
        async with running(settings) as world:
            world.devices.append(device)
            device.connect()
            assert (await world.rest("GET", "/gateways/gw-berlin"))["state"] != "online"
            assert (await device.open()).tunnel.gateway.name == "gw-berlin"


async def _click(device: Device, seconds: float) -> None:
    """Open and close a tunnel again and again. Raises CulvertError."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        opened = await device.open()
        await device.close(opened.tunnel.tunnel_id)
        # A device may make 20 calls a second.
        await asyncio.sleep(0.15)
