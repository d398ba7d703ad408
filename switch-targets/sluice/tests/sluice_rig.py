"""sluice between two wires, in network namespaces of its own (see gateway_wires.py)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path

import finsy as fy
from gateway_authority import Authority
from gateway_target import ROOT
from gateway_wires import PREFIX

SWITCH = f"{PREFIX}-sluice"
PEERS = f"{PREFIX}-sluice-peers"

Controller = Callable[..., contextlib.AbstractAsyncContextManager[fy.Switch]]


def binary() -> Path:
    """The one that CULVERT_SLUICE names, or the release build, or else a debug build made now."""
    if named := os.environ.get("CULVERT_SLUICE"):
        return Path(named)
    if (release := ROOT / "target/release/sluice").exists():
        return release
    build = ["cargo", "build", "--quiet", "-p", "sluice", "--message-format=json"]
    lines = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.splitlines()
    artifacts = (json.loads(line) for line in lines)
    return Path(
        next(
            it["executable"] for it in artifacts if it.get("executable") and it["target"]["name"] == "sluice"
        )
    )


def flat(arguments: dict[str, str]) -> list[str]:
    return [*(word for pair in arguments.items() for word in pair), "--port", "1=wan", "--port", "2=lan"]


def credentials(infrastructure: Authority, certificate: Path, key: Path) -> fy.GRPCCredentialsTLS:
    return fy.GRPCCredentialsTLS(cacert=infrastructure.certificate, cert=certificate, private_key=key)


class Sluice:
    """The running switch."""

    def __init__(self, program: Path, arguments: list[str], log: Path) -> None:
        self.log = log
        command = ["ip", "netns", "exec", SWITCH, str(program), *arguments]
        with log.open("wb") as stream:
            self.process = subprocess.Popen(command, stderr=stream)
        deadline = time.monotonic() + 10
        while "ready" not in log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(f"sluice did not get ready: {log.read_text()}")
            time.sleep(0.01)

    @contextlib.contextmanager
    def halted(self) -> Generator[None]:
        """No thread of the switch runs."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        while any(" T " not in (task / "stat").read_text() for task in tasks.iterdir()):
            time.sleep(0.001)
        yield
        self.process.send_signal(signal.SIGCONT)

    async def says(self, text: str) -> None:
        """Wait until the log has `text`: the line may come after its effect."""
        async with asyncio.timeout(20):
            while await asyncio.sleep(0.05, text not in self.log.read_text()):
                pass

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=5)
