"""`culvert-gateway join` in a namespace of its own: from the link to a tunnel, and back; and what it refuses.

test's namespace                          gateway's namespace
 mgmt 10.255.0.1/30   controller ──────── mgmt 10.255.0.2/30
 wan 198.51.100.1/24  router ──────────── wan 198.51.100.2/24, default route
 lan 10.20.0.10/24    wiki ────────────── lan 10.20.0.1/24
"""

from __future__ import annotations

import asyncio
import base64
import shutil
import ssl
import stat
import sys
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from culvert_lab.free_port import free_port
from culvert_service.gateways.schemas import GatewayIn

from . import log_watch
from .conftest import World, running, settings_in, until
from .gateway_process import ROOT, SLUICE, needs_root
from .test_public_certificate import Company, shown
from .unit_starter import UID
from .wire import ip

PROGRAM = ROOT / "target/release/culvert-gateway"
NAME = "gw-berlin"
ROUTER_MAC, WIKI_MAC = "02:00:00:00:01:02", "02:00:00:00:02:10"
pytestmark = [
    pytest.mark.slow,
    needs_root,
    pytest.mark.skipif(not PROGRAM.is_file(), reason="culvert-gateway is not built: cargo build --release"),
]


@dataclass
class Computer:
    """A computer without systemd: its root, its network namespace."""

    root: Path
    namespace: str
    systemctl: Path

    async def run(self, *arguments: str, says: str = "") -> tuple[int, str]:
        """Exit code, and what was printed."""
        process = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", self.namespace, str(PROGRAM)),
            *("--root", str(self.root), "--systemctl", str(self.systemctl)),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(120):
            said, _ = await process.communicate(says.encode())
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def ip(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *("ip", "-n", self.namespace, *arguments), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        assert process.returncode == 0
        return said.decode()

    async def network(self) -> str:
        """The addresses and routes of the kernel."""
        routes = await self.ip("route")
        # An interface's other end may not be up yet.
        return await self.ip("-oneline", "-4", "address") + routes.replace(" linkdown", "")

    def files(self) -> dict[str, bytes]:
        there = self.root / "etc/culvert"
        return {str(it.relative_to(there)): it.read_bytes() for it in there.rglob("*") if it.is_file()}


def installed() -> tuple[Path, Path]:
    """A root with the switch and its user, and the program that starts units there."""
    # The switch's user must reach it, and pytest's folders are their owner's alone.
    root = Path(tempfile.mkdtemp(prefix="culvert-join-"))
    root.chmod(0o755)
    (root / "usr/bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text(f"root:x:0:0::/root:/bin/sh\nsluice:x:{UID}:{UID}::/:/bin/false\n")
    shutil.copy(SLUICE, root / "usr/bin/sluice")
    starter = root / "systemctl"
    starter.write_text(
        f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent}/unit_starter.py {root} "$@"\n'
    )
    starter.chmod(0o755)
    return root, starter


@pytest.fixture
async def computer() -> AsyncGenerator[Computer]:
    root, starter = installed()
    namespace = root.name
    await ip("netns", "add", namespace)
    # A new namespace begins with the forwarding of this computer.
    await ip("netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.ip_forward=0")
    for wire, here, there in (
        ("mgmt", "10.255.0.1/30", "10.255.0.2/30"),
        ("wan", "198.51.100.1/24", "198.51.100.2/24"),
        ("lan", "10.20.0.10/24", "10.20.0.1/24"),
    ):
        await ip("link", "add", f"j{wire}", "type", "veth", "peer", "name", wire, "netns", namespace)
        await ip("address", "add", here, "dev", f"j{wire}")
        await ip("link", "set", f"j{wire}", "up")
        await ip("-n", namespace, "address", "add", there, "dev", wire)
        await ip("-n", namespace, "link", "set", wire, "up")
    await ip("link", "set", "jwan", "address", ROUTER_MAC)
    await ip("link", "set", "jlan", "address", WIKI_MAC)
    await ip("-n", namespace, "link", "set", "lo", "up")
    await ip("-n", namespace, "route", "add", "default", "via", "198.51.100.1")
    made = Computer(root, namespace, starter)
    yield made
    await (await asyncio.create_subprocess_exec(str(starter), "disable", f"sluice@{NAME}")).wait()
    await ip("netns", "delete", namespace)
    for wire in ("mgmt", "wan", "lan"):
        # The kernel removes them with the namespace, a moment later.
        gone = await asyncio.create_subprocess_exec("ip", "link", "delete", f"j{wire}", stderr=DEVNULL)
        await gone.wait()
    shutil.rmtree(root)


@pytest.fixture
async def reached(tmp_path: Path, database_url: str, computer: Computer) -> AsyncGenerator[World]:
    """A controller at the other end of the computer's third interface."""
    listens = {f"{it}_listen": f"10.255.0.1:{free_port()}" for it in ("rest", "agent")}
    async with running(settings_in(tmp_path, database_url=database_url, **listens)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        yield world


async def link(world: World, pool: str | None = "10.99.0.0/24") -> str:
    body = {"gateway": NAME} | ({"pool": pool} if pool else {})
    made = str((await world.rest("POST", "/gateway-enrolments", body))["link"])
    log_watch.met(made.partition("#")[2].partition(".")[0])
    return made


DIRECT = ("--grpc", "10.255.0.2:9559")


async def test_a_computer_joins_carries_a_tunnel_and_leaves(reached: World, computer: Computer) -> None:
    before = await computer.network()
    code, said = await computer.run("join", await link(reached), "--yes")
    assert code == 0, said
    assert f"The gateway {NAME} is online." in said
    shown = await reached.rest("GET", f"/gateways/{NAME}")
    assert shown["address"] == "198.51.100.2"
    assert shown["wan"]["next_hop"] == "198.51.100.1"
    assert shown["lan"]["neighbours"] == {"10.20.0.10": None}
    assert [it["mac"] for it in shown["neighbours"]] == [ROUTER_MAC, WIKI_MAC]
    assert shown["keys"]["state"] == "settled"
    for file in ("gateway.key", "gateway.pem", "controller-ca.pem", "kek.bin"):
        found = (computer.root / "etc/culvert/sluice" / NAME / file).stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (UID, 0o600)
    kept = await computer.ip("-brief", "-4", "address")
    assert "198.51.100.2" not in kept
    assert "10.20.0.1/" not in kept
    await reached.add_wiki([NAME])
    device = await reached.enrol()
    await device.prove()
    await device.open()
    assert (await reached.rest("GET", f"/gateways/{NAME}/entries"))["tunnel_entries"] == 5

    code, said = await computer.run("status")
    assert code == 0, said
    assert "online since" in said
    code, said = await computer.run("doctor")
    assert code == 0, said
    first = (computer.root / f"etc/culvert/sluice/{NAME}/gateway.pem").read_bytes()
    assert "needs no new certificate yet" in (await computer.run("renew"))[1]
    assert "has a new certificate" in (await computer.run("renew", "--now"))[1]
    second = (computer.root / f"etc/culvert/sluice/{NAME}/gateway.pem").read_bytes()
    assert (
        x509.load_pem_x509_certificate(first).public_key()
        == x509.load_pem_x509_certificate(second).public_key()
    )
    assert first != second

    code, said = await computer.run("leave", "--yes")
    assert code == 0, said
    assert "it serves wiki" in said
    assert await computer.network() == before
    assert computer.files() == {}
    await reached.online(NAME, wanted="offline")
    code, said = await computer.run("join", await link(reached, None), "--yes")
    assert code == 0, said


async def test_a_computer_joins_where_browsers_get_another_certificate(
    tmp_path: Path, database_url: str, computer: Computer
) -> None:
    files = {f"public_{name}_file": tmp_path / f"{name}.pem" for name in ("certificate", "key")}
    company, context = Company(), ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def write(name: str) -> None:
        for file, content in zip(files.values(), company.issue([name]), strict=True):
            file.write_bytes(content)

    # The certificate is not this controller's at first, so that the test's client gets the one of Culvert's CA.
    write("vpn.corp.example")
    listens = {f"{it}_listen": f"10.255.0.1:{free_port()}" for it in ("rest", "agent")}
    settings = settings_in(tmp_path, database_url=database_url, **listens, **files)
    async with running(settings) as world:
        made, own = await link(world), await shown(settings.rest_listen, context, "10.255.0.1")
        write("10.255.0.1")
        await until(lambda: shown(settings.rest_listen, context, "10.255.0.1"), lambda found: found != own)
        code, said = await computer.run("join", made, "--yes")
        assert code == 0, said


async def test_nothing_is_changed_before_the_person_agrees(reached: World, computer: Computer) -> None:
    before, made = await computer.network(), await link(reached)
    # Somebody opens the link in a browser, which sends no fragment.
    opened = await reached.anyone.get("/join")
    assert "Run there, as root:  culvert-gateway join" in opened.text
    code, said = await computer.run("join", made, *DIRECT, says="n\n")
    assert code == 0
    assert f"next hop 198.51.100.1 ({ROUTER_MAC})" in said
    assert "Nothing was changed." in said
    assert await computer.network() == before
    assert computer.files() == {}
    assert await reached.rest("GET", "/gateways") == []
    code, said = await computer.run("join", made, *DIRECT, says="y\n")
    assert code == 0, said


async def test_what_cannot_work_is_said_and_leaves_all_as_it_was(reached: World, computer: Computer) -> None:
    before, made = await computer.network(), await link(reached)
    token, fingerprint = made.rpartition("#")[2].split(".")
    other = base64.urlsafe_b64encode(bytes(32)).decode().rstrip("=")

    async def refused(*arguments: str) -> str:
        code, said = await computer.run("join", *arguments, "--yes", *DIRECT)
        assert code == 1, said
        assert "Remedy: " in said
        assert token not in said
        assert await computer.network() == before
        assert computer.files() == {}
        return said

    assert "not a whole link" in await refused(made[:-1])
    said = await refused(made.replace(fingerprint, other))
    assert "not the controller that made this link" in said
    assert "The token was not sent" in said
    altered = ("b" if token[0] == "a" else "a") + token[1:]
    assert "does not know the link" in await refused(made.replace(token, altered))
    assert "no Ethernet interface eth9" in await refused(made, "--wan", "eth9")
    assert "reaches the controller through mgmt" in await refused(made, "--wan", "mgmt", "--lan", "lan")
    assert "no default route" in await refused(made, "--wan", "lan", "--lan", "wan")
    assert "does not answer" in await refused(made, "--next-hop", "198.51.100.77")
    port = made.partition("10.255.0.1:")[2].partition("/")[0]
    unreachable = made.replace(f":{port}/", f":{free_port()}/")
    assert "cannot be reached" in await refused(unreachable)
    pool = await link(reached, "10.20.0.128/25")
    assert "overlaps" in await refused(pool)
    # The switch that never comes online: it listens elsewhere than the controller is told.
    made = await link(reached)
    said = (await computer.run("join", made, "--yes", "--wait", "2", "--grpc", "10.255.0.9:9559"))[1]
    assert "has not seen the gateway online" in said
    assert "Everything on this computer is as it was." in said
    assert await computer.network() == before
    assert computer.files() == {}
    assert await reached.rest("GET", "/gateways") == []
    code, said = await computer.run("join", made, "--yes", *DIRECT)
    assert code == 1
    assert "was used already" in said


async def test_a_gateway_that_connects_itself_takes_changed_settings(
    reached: World, computer: Computer
) -> None:
    code, said = await computer.run("join", await link(reached), "--yes")
    assert code == 0, said
    shown = await reached.rest("GET", f"/gateways/{NAME}")
    body = {key: value for key, value in shown.items() if key in GatewayIn.model_fields}
    body["lan"]["routes"] = {"10.30.0.0/16": "10.20.0.10"}
    await reached.rest("PUT", f"/gateways/{NAME}", body)
    await reached.online(NAME)
    entries = (await reached.rest("GET", f"/gateways/{NAME}/entries"))["entries"]
    assert {it["standing"] for it in entries} == {"held"}
