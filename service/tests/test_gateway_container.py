"""The gateway's container beside a kernel: the image's programs on this computer's root, in podman, with the capabilities
that the image asks for. Its network is that of `test_gateway_beside.py`.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from .conftest import World, until
from .gateway_process import ROOT, needs_root
from .test_gateway_beside import ADDRESS, computer, reached, said_in, tunnel
from .test_gateway_joins import PROGRAM, Computer, link

__all__ = ("computer", "reached")
IMAGE = ROOT / "deploy/images/culvert-gateway/usr"
# An engine starts no container if its limits are above this computer's own.
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
CAPABILITIES = "NET_ADMIN,NET_RAW,CHOWN,DAC_OVERRIDE,KILL,SETUID,SETGID,SETPCAP"
pytestmark = [
    pytest.mark.slow,
    needs_root,
    pytest.mark.skipif(not shutil.which("podman"), reason="needs podman"),
    pytest.mark.skipif(not PROGRAM.is_file(), reason="culvert-gateway is not built: cargo build --release"),
]


class Container:
    def __init__(self, folder: Path, computer: Computer) -> None:
        self.name = computer.namespace
        self._namespace = computer.namespace
        self._folder = folder
        (folder / "containers.conf").write_text(CONTAINERS_CONF)
        self._environment = os.environ | {"CONTAINERS_CONF": str(folder / "containers.conf")}
        (folder / "group").write_text("root:x:0:\nsluice:x:7734:\n")
        (folder / "culvert").mkdir()
        self._mounts = {
            computer.root / "etc/passwd": "/etc/passwd:ro",
            folder / "group": "/etc/group:ro",
            folder / "culvert": "/etc/culvert",
            folder / "link": "/run/secrets/culvert_gateway_link:ro",
            ROOT / "target/release/sluice": "/usr/bin/sluice:ro",
            PROGRAM: "/usr/bin/culvert-gateway:ro",
            ROOT / "deploy/systemd/sluice@.service": "/usr/lib/systemd/system/sluice@.service:ro",
            IMAGE / "bin/systemctl": "/usr/bin/systemctl:ro",
            IMAGE / "lib/culvert-gateway": "/usr/lib/culvert-gateway:ro",
        }

    async def podman(self, *arguments: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            "podman", *arguments, stdout=PIPE, stderr=STDOUT, env=self._environment
        )
        async with asyncio.timeout(120):
            said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def start(self, made: str, *options: str) -> None:
        """As `podman run` of the image, with the link in a file."""
        (self._folder / "link").write_text(made)
        mounts = [word for it, there in self._mounts.items() for word in ("--volume", f"{it}:{there}")]
        network = ("--network", f"ns:/run/netns/{self._namespace}")
        caps = ("--cap-drop", "ALL", "--cap-add", CAPABILITIES)
        temporary = ("--tmpfs", "/run/sluice", "--tmpfs", "/run/culvert-gateway")
        entry = "/usr/lib/culvert-gateway/run-in-container"
        code, said = await self.podman(
            *("run", "--detach", "--name", self.name, *network, *caps, *mounts, *temporary),
            *("--rootfs", "/:O", entry, *options),
        )
        assert code == 0, said

    async def joined(self) -> None:
        """Until the switch runs as the container's own: the one that `join` has started ends before."""

        async def watches() -> int:
            code, _ = await self.podman("exec", self.name, "pgrep", "--full", "culvert-gateway watch")
            return code

        await until(watches, lambda code: code == 0, 60)

    async def remove(self) -> None:
        await self.podman("rm", "--force", "--time", "0", self.name)


@pytest.fixture
async def container(tmp_path: Path, computer: Computer) -> AsyncGenerator[Container]:
    (tmp_path / "container").mkdir()
    made = Container(tmp_path / "container", computer)
    yield made
    await made.remove()


async def test_a_container_that_cannot_forward_says_the_option_that_it_needs(
    reached: World, computer: Computer, container: Container
) -> None:
    before = await computer.network()
    await container.start(await link(reached), "--masquerade")
    code, said = await container.podman("wait", container.name)
    assert (code, said.strip()) == (0, "1")
    _, said = await container.podman("logs", container.name)
    assert "The kernel's forwarding cannot be set here" in said
    assert "--sysctl net.ipv4.ip_forward=1" in said
    assert await computer.network() == before
    assert await reached.rest("GET", "/gateways") == []


async def test_a_container_shares_the_address_of_its_kernel(
    reached: World, computer: Computer, container: Container
) -> None:
    # As the option --sysctl does, which podman permits for a network of its own alone.
    await said_in(computer.namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    before = await computer.network()
    await container.start(await link(reached), "--masquerade")
    await container.joined()
    everything = functools.partial(reached.rest, "GET", "/gateways")
    await until(everything, lambda found: [it["state"] for it in found] == ["online"], 60)
    _, it = await tunnel(reached)
    assert await it.ask() == ADDRESS.encode()
    it.close()
    # The watch mends in there, too.
    await said_in(computer.namespace, "nft", "flush ruleset")
    tables = functools.partial(said_in, computer.namespace, "nft", "list", "tables")
    await until(tables, lambda found: "culvert-0" in found, 30)
    await until(everything, lambda found: [it["state"] for it in found] == ["online"], 30)
    code, said = await container.podman("exec", container.name, "culvert-gateway", "doctor")
    assert code == 0, said
    code, said = await container.podman("stop", "--time", "30", container.name)
    assert code == 0, said
    assert await computer.network() == before
    assert "culvert" not in await tables()
