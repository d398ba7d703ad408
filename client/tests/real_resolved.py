"""systemd-resolved itself, in a network and a mount namespace with its own system bus, /etc and /run.

program ──► 127.0.0.53 ──┐                    ┌──► culvert-dns ──► the stub
resolvectl query ────────┴──► systemd-resolved ┴──► uplink ──► the network's name server
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Self

import pytest

ROOT = Path(__file__).parents[2]
_PACKAGE = ROOT / "build/systemd-resolved"
_DAEMON, _CONTROL = "lib/systemd/systemd-resolved", "usr/bin/resolvectl"
_USER = "systemd-resolve"
# Files have no events, and take no time here.
# ruff: noqa: ASYNC110, ASYNC230, ASYNC240
_BUS = """<busconfig><type>system</type><listen>unix:path=/run/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy>
</busconfig>"""
_ALONE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def provide() -> Path:
    """The programs' root directory. The package is only unpacked: installed, it would take over this computer's DNS.

    Skips the test where there is neither the program nor a Debian to get it from.
    """
    for root in (Path("/"), _PACKAGE):
        if all((root / it).exists() for it in (_DAEMON, _CONTROL)):
            return root
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("needs systemd-resolved, or a Debian to get it from")
    _PACKAGE.mkdir(parents=True, exist_ok=True)
    got = subprocess.run(["apt-get", "download", "-q", "systemd-resolved"], cwd=_PACKAGE, check=False)
    if got.returncode:
        pytest.skip("the package systemd-resolved cannot be downloaded")
    for package in _PACKAGE.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, _PACKAGE], check=True)
    return _PACKAGE


def inside(module: str, function: str, *words: object) -> str:
    """Runs `function(programs, *words)` of a test module in namespaces of its own, and returns what it prints."""
    program = f"import sys; from client.tests import {module} as it; it.{function}(*sys.argv[1:])"
    ended = subprocess.run(
        [*_ALONE, sys.executable, "-c", program, provide(), *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class Resolved:
    """Inside the namespaces. `uplink` is the address of the network's name server."""

    def __init__(self, programs: str, uplink: str) -> None:
        self._daemon, self._control = Path(programs, _DAEMON), Path(programs, _CONTROL)
        self._uplink = uplink
        self._running: asyncio.subprocess.Process | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        _shell(f"""
            ip link set lo up
            ip link add uplink type veth peer name far; ip address add {self._uplink}/24 dev uplink
            ip link set far up; ip link set uplink up
            mount -t tmpfs tmpfs /run; mkdir -p /run/etc/upper /run/etc/work
            mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work /etc
        """)
        for file, line in (("passwd", "x:991:991::/:/usr/sbin/nologin"), ("group", "x:991:")):
            with Path("/etc", file).open("a") as users:
                users.write(f"{_USER}:{line}\n")
        self.point_at_resolved()
        Path("/run/bus.conf").write_text(_BUS)
        bus = await asyncio.create_subprocess_exec("dbus-daemon", "--config-file=/run/bus.conf", "--nofork")
        self._stack.callback(bus.kill)
        os.environ["DBUS_SYSTEM_BUS_ADDRESS"] = "unix:path=/run/bus"
        while not Path("/run/bus").exists():
            await asyncio.sleep(0.01)
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self._stack.aclose()

    @staticmethod
    def point_at_resolved() -> None:
        file = Path("/etc/resolv.conf")
        file.unlink(missing_ok=True)
        file.symlink_to("/run/systemd/resolve/stub-resolv.conf")

    async def start(self) -> None:
        """With an empty state."""
        state = Path("/run/systemd/resolve")
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir(parents=True)
        os.chown(state, 991, 991)
        self._running = await asyncio.create_subprocess_exec(self._daemon)
        async with asyncio.timeout(20):
            while not await self.control("dns", "uplink", self._uplink):
                await asyncio.sleep(0.05)
        await self.control("domain", "uplink", "~.", "lan.example")

    async def stop(self) -> None:
        assert self._running is not None
        with suppress(ProcessLookupError):
            self._running.kill()
        await self._running.wait()

    async def control(self, *words: str) -> bool:
        return await self._run(*words) is not None

    async def addresses(self, name: str, kind: str = "-4") -> list[str]:
        """As resolved finds them, without what it keeps."""
        said = await self._run("query", kind, "--cache=no", "--legend=no", name)
        return [] if said is None else [word for word in said.split() if word[:1].isdigit()]

    async def _run(self, *words: str) -> str | None:
        process = await asyncio.create_subprocess_exec(
            self._control, *words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        said, _ = await process.communicate()
        return None if process.returncode else said.decode()


def _shell(script: str) -> None:
    subprocess.run(["sh", "-ec", script], check=True)
