"""The namespaces that a switch under test and its neighbours live in, and the far ends of its ports.

test process ── Relay ──┐                      (P4Runtime, TLS passes through)
              ┌─────────┴──────────┐      ┌──────────────┐
              │ …-switch  lo:9559  │      │ …-peers      │
              │  switch ── wan ────┼──────┼── wan ── Wire│
              │         ├─ lan ────┼──────┼── lan ── Wire│
              │         └─ lan2 ───┼──────┼── lan2 ─ Wire│
              └────────────────────┘      └──────────────┘
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TypeVar

from scapy.layers.l2 import Ether
from scapy.packet import Packet

PREFIX = f"culvert-test-{os.getpid()}"
SWITCH = f"{PREFIX}-switch"
PEERS = f"{PREFIX}-peers"
PORTS = {1: "wan", 2: "lan", 3: "lan2"}

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_AUXDATA, _VLAN_VALID = 263, 8, 1 << 4
_SO_RCVBUFFORCE = 33


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


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


@contextlib.contextmanager
def namespaces(*names: str, ipv6: bool = False) -> Generator[None]:
    """Makes them, and deletes them with all that is in them. Without IPv6 a kernel sends nothing by itself."""
    try:
        for name in names:
            run("ip", "netns", "add", name)
            if not ipv6:
                run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            run("ip", "-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def connect(one: tuple[str, str], other: tuple[str, str]) -> None:
    """A veth pair between two (namespace, interface), up, without offloads."""
    peer = ("type", "veth", "peer", other[1], "netns", other[0])
    run("ip", "link", "add", one[1], "netns", one[0], *peer)
    for namespace, interface in (one, other):
        off = ("tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off")
        run("ip", "netns", "exec", namespace, "ethtool", "-K", interface, *off)
        run("ip", "-n", namespace, "link", "set", interface, "up")


@contextlib.contextmanager
def wire_switch(switch: str = SWITCH, peers: str = PEERS) -> Generator[None]:
    """Two namespaces with every port of PORTS between them."""
    with namespaces(switch, peers):
        for name in PORTS.values():
            connect((switch, name), (peers, name))
        yield


class Wire:
    """The far end of one of a switch's ports."""

    def __init__(self, interface: str, namespace: str = PEERS) -> None:
        self._socket = inside(
            namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        )
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
        self._socket.bind((interface, _ETH_P_ALL))

    def send(self, packet: Packet | bytes) -> None:
        self._socket.send(bytes(packet))

    def receive(self, timeout: float = 2.0) -> Packet | None:
        """The next frame from the switch, `None` when there is none in time."""
        deadline = time.monotonic() + timeout
        while select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            frame, control, _, address = self._socket.recvmsg(65535, 256)
            if address[2] != socket.PACKET_OUTGOING:
                return Ether(_with_tag(frame, control))
        return None

    def drain(self, quiet: float = 0.1) -> list[Packet]:
        """Receive frames until none has come for `quiet` seconds."""
        found: list[Packet] = []
        while (frame := self.receive(quiet)) is not None:
            found.append(frame)
        return found

    def close(self) -> None:
        self._socket.close()


def _with_tag(frame: bytes, control: Iterable[tuple[int, int, bytes]]) -> bytes:
    """The kernel takes a VLAN tag out of a received frame and hands it over beside it."""
    for level, kind, data in control:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data)
            if status & _VLAN_VALID:
                return frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame


class Relay:
    """A TCP port of this process's namespace that leads to one in the switch's."""

    def __init__(self, port: int, namespace: str = SWITCH) -> None:
        self._to = port
        self._namespace = namespace
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = inside(self._namespace, lambda: socket.create_connection(("127.0.0.1", self._to)))
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
