"""simple_switch_grpc with our module, in a namespace of its own.

            ┌─ culvert-bmv2-PID ───────────────────────────┐
finsy ══════╪══► Unix socket   bmv2 ── wan ─── wan-peer ───┼── Wire
 (TLS)      │                       └─ lan ─── lan-peer ───┼── Wire
            └──────────────────────────────────────────────┘
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODULE = ROOT / "build/bmv2/culvert_bmv2.so"
NAMESPACE = f"culvert-bmv2-{os.getpid()}"
CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def namespace() -> Generator[None]:
    """Two wires; the kernel itself sends nothing on them."""
    run("ip", "netns", "add", NAMESPACE)
    try:
        run("ip", "netns", "exec", NAMESPACE, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        for wire in ("wan", "lan"):
            run("ip", "-n", NAMESPACE, "link", "add", wire, "type", "veth", "peer", f"{wire}-peer")
            for end in (wire, f"{wire}-peer"):
                run("ip", "-n", NAMESPACE, "link", "set", end, "up")
        yield
    finally:
        run("ip", "netns", "delete", NAMESPACE)


class Wire:
    """The far end of one of the switch's ports."""

    def __init__(self, name: str) -> None:
        self._socket = _inside(
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        )
        self._socket.bind((f"{name}-peer", ETH_P_ALL))

    def send(self, frame: bytes) -> None:
        self._socket.send(frame)

    def receive(self, seconds: float = 3.0) -> bytes | None:
        """The next frame from the switch; None when there is none in time."""
        deadline = time.monotonic() + seconds
        while select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            frame, address = self._socket.recvfrom(65535)
            if address[2] != socket.PACKET_OUTGOING:
                return frame
        return None

    def close(self) -> None:
        self._socket.close()


class Bmv2:
    """A running switch. `pki` holds gateway.pem, gateway.key and ca.pem; `env` is all that the module sees."""

    def __init__(
        self, directory: Path, pki: Path, env: Mapping[str, str], *, module: Path | None = MODULE
    ) -> None:
        self.address = f"unix:{directory}/p4runtime.sock"
        self.has_module = module is not None
        self._log = directory / "bmv2.log"
        command = ["ip", "netns", "exec", NAMESPACE, "stdbuf", "-oL", "simple_switch_grpc", "--no-p4"]
        command += ["--device-id", "1", "-i", "1@wan", "-i", "2@lan", "--"]
        command += [] if module is None else ["--load-modules", str(module)]
        command += ["--grpc-server-addr", self.address, "--grpc-server-ssl", "--grpc-server-with-client-auth"]
        command += [
            "--grpc-server-cert",
            str(pki / "gateway.pem"),
            "--grpc-server-key",
            str(pki / "gateway.key"),
        ]
        command += ["--grpc-server-cacert", str(pki / "ca.pem")]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env={"PATH": os.environ["PATH"], **env}
            )
        deadline = time.monotonic() + 20
        while "Server listening" not in self.log():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"simple_switch_grpc did not get ready:\n{self.log()}")
            time.sleep(0.02)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def stop(self) -> int:
        """Its exit status. Stopping it twice is no error."""
        self._process.terminate()
        return self._process.wait(timeout=10)


def _inside(action: Callable[[], socket.socket]) -> socket.socket:
    """A socket that is opened in the namespace stays there."""
    opened: list[socket.socket] = []

    def enter() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with Path(f"/run/netns/{NAMESPACE}").open() as handle:
            if libc.setns(handle.fileno(), CLONE_NEWNET) == 0:
                opened.append(action())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return opened[0]
