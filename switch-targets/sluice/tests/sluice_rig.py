"""sluice between two wires, in network namespaces of its own.

test process ── relay ──┐                      (P4Runtime, TLS passes through)
              ┌─────────┴──────────┐      ┌──────────────┐
              │ …-switch  lo:9559  │      │ …-peers      │
              │  sluice ── wan ────┼──────┼── wan ── Wire│
              │         └─ lan ────┼──────┼── lan ── Wire│
              └────────────────────┘      └──────────────┘
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar

import finsy as fy
from scapy.layers.l2 import Ether
from scapy.packet import Packet

ROOT = Path(__file__).parents[3]
SWITCH = f"culvert-test-{os.getpid()}-switch"
PEERS = f"culvert-test-{os.getpid()}-peers"
GRPC_PORT = 9559
CLIENT_NAME = "culvert-controller"
P4INFO = ROOT / "p4/build/gateway.p4info.txtpb"
PROGRAM = ROOT / "p4/build/gateway.json"

Controller = Callable[..., contextlib.AbstractAsyncContextManager[fy.Switch]]
_CLONE_NEWNET = 0x40000000
_ETH_P_ALL = 3
T = TypeVar("T")


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


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


def inside(namespace: str, action: Callable[[], T]) -> T:
    """Run `action` in a network namespace; a socket that it returns stays there."""
    results: list[T] = []
    failures: list[BaseException] = []

    def enter() -> None:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            with Path(f"/run/netns/{namespace}").open() as handle:
                if libc.setns(handle.fileno(), _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"setns {namespace}")
            results.append(action())
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def flat(arguments: dict[str, str]) -> list[str]:
    return [*(word for pair in arguments.items() for word in pair), "--port", "1=wan", "--port", "2=lan"]


@contextlib.contextmanager
def namespaces() -> Generator[None]:
    try:
        for name in (SWITCH, PEERS):
            run("ip", "netns", "add", name)
            # Neighbour discovery would put frames on the wires that no test has sent.
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            run("ip", "-n", name, "link", "set", "lo", "up")
        for wire in ("wan", "lan"):
            run("ip", "link", "add", wire, "netns", SWITCH, "type", "veth", "peer", wire, "netns", PEERS)
            for name in (SWITCH, PEERS):
                run("ip", "-n", name, "link", "set", wire, "up")
        yield
    finally:
        for name in (SWITCH, PEERS):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


class Wire:
    """The far end of one of sluice's ports."""

    def __init__(self, interface: str) -> None:
        self._socket = inside(
            PEERS, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        )
        self._socket.bind((interface, _ETH_P_ALL))

    def send(self, packet: Packet | bytes) -> None:
        self._socket.send(bytes(packet))

    def receive(self, timeout: float = 2.0) -> Packet | None:
        """The next frame from the switch, `None` when there is none in time."""
        deadline = time.monotonic() + timeout
        while select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            frame, address = self._socket.recvfrom(65535)
            if address[2] != socket.PACKET_OUTGOING:
                return Ether(frame)
        return None

    def close(self) -> None:
        self._socket.close()


class Relay:
    """A TCP port of this process's namespace that leads to one in the switch's."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = inside(SWITCH, lambda: socket.create_connection(("127.0.0.1", self._to)))
                except OSError:
                    near.close()
                    continue
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


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

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=5)
