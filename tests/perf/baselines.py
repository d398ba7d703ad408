"""Baselines of Culvert's goodput: a plain veth pair, and wireguard-go over one.

left ── veth ── right      iperf3 client left, server right; with wireguard-go, wg0 on both ends, over the same veth
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from iperf import goodput

LEFT, RIGHT = f"culvert-bench-{os.getpid()}-l", f"culvert-bench-{os.getpid()}-r"
WIREGUARD_GO = "golang.zx2c4.com/wireguard@v0.0.0-20260522210424-ecfc5a8d5446"


def veth_mbit_s(seconds: int) -> float:
    """Goodput over a veth pair with the kernel's default offloads, Mbit/s."""
    with pair():
        return goodput(LEFT, RIGHT, "192.0.2.2", seconds)


def wireguard_go_mbit_s(seconds: int, build: Path) -> float | None:
    """Goodput through wireguard-go on both ends of a veth pair, Mbit/s; None where it can't be built."""
    with wireguard_go(build) as address:
        return None if address is None else goodput(LEFT, RIGHT, address, seconds)


@contextmanager
def wireguard_go(build: Path) -> Generator[str | None]:
    """wireguard-go on LEFT and RIGHT: RIGHT's address in the tunnel, None where it can't be built."""
    program = _wireguard_go(build)
    if program is None or not shutil.which("wg"):
        yield None
        return
    with pair(), ExitStack() as stack:
        keys = [_run(["wg", "genkey"]) for _ in range(2)]
        for side, (namespace, own, peer) in enumerate([(LEFT, 1, 2), (RIGHT, 2, 1)]):
            stack.enter_context(
                _tunnel(program, namespace, f"cvwg{side}", own, peer, keys[side], keys[1 - side])
            )
        yield "10.77.0.2"


@contextmanager
def _tunnel(
    program: Path, namespace: str, device: str, own: int, peer: int, key: str, peer_key: str
) -> Generator[None]:
    inside = ["ip", "netns", "exec", namespace]
    process = subprocess.Popen(
        [*inside, str(program), "-f", device], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            if (
                subprocess.run([*inside, "wg", "show", device], capture_output=True, check=False).returncode
                == 0
            ):
                break
            time.sleep(0.05)
        _run([*inside, "wg", "set", device, "listen-port", "51820", "private-key", "/dev/stdin"], key)
        _run([*inside, "wg", "set", device, "peer", _run(["wg", "pubkey"], peer_key), "endpoint",
              f"192.0.2.{peer}:51820", "allowed-ips", f"10.77.0.{peer}/32"])  # fmt: skip
        _run(["ip", "-n", namespace, "addr", "add", f"10.77.0.{own}/24", "dev", device])
        _run(["ip", "-n", namespace, "link", "set", device, "up", "mtu", "1420"])
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def pair() -> Generator[None]:
    """LEFT, 192.0.2.1, and RIGHT, 192.0.2.2, as long as the context lasts."""
    for namespace in (LEFT, RIGHT):
        _run(["ip", "netns", "add", namespace])
    try:
        _run(
            [
                "ip",
                "link",
                "add",
                "wire",
                "netns",
                LEFT,
                "type",
                "veth",
                "peer",
                "name",
                "wire",
                "netns",
                RIGHT,
            ]
        )
        for namespace, address in ((LEFT, "192.0.2.1/24"), (RIGHT, "192.0.2.2/24")):
            _run(["ip", "-n", namespace, "addr", "add", address, "dev", "wire"])
            _run(["ip", "-n", namespace, "link", "set", "wire", "up"])
            _run(["ip", "-n", namespace, "link", "set", "lo", "up"])
        yield
    finally:
        for namespace in (LEFT, RIGHT):
            subprocess.run(["ip", "netns", "del", namespace], check=False)


def _wireguard_go(build: Path) -> Path | None:
    program = build / "bin" / "wireguard"
    if not program.exists() and shutil.which("go"):
        environment = {**os.environ, "GOBIN": str(program.parent.resolve())}
        subprocess.run(["go", "install", WIREGUARD_GO], env=environment, check=False)
    return program if program.exists() else None


def _run(command: list[str], stdin: str | None = None) -> str:
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout.strip()
