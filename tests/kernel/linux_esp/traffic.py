"""Traffic of hosts: ping, TCP, numbered datagrams. Each end is a namespace."""

from __future__ import annotations

import hashlib
import random
import re
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address

from culvert_lab.netns import Inside

SECONDS = 30.0


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET


def ping(namespace: str, address: str, *, count: int = 3, payload: int = 56) -> int:
    """The number of answers. Packets are not to be fragmented."""
    command = [
        "ping",
        "-n",
        "-M",
        "do",
        "-c",
        str(count),
        "-i",
        "0.05",
        "-W",
        "2",
        "-s",
        str(payload),
        address,
    ]
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, *command], capture_output=True, text=True, check=False
    )
    found = re.search(r"(\d+) received", done.stdout)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class Segments:
    """The largest segment that each end sends, in bytes."""

    client: int
    server: int


def echo_over_tcp(client: Inside, server: Inside, src: str, dst: str, size: int) -> Segments:
    """`size` bytes there and the same bytes back, compared. Raises OSError or AssertionError."""
    data = random.Random(size).randbytes(size)  # noqa: S311 - payload, not a secret
    listener = server.call(socket.create_server, (dst, 0), family=family(dst))
    listener.settimeout(SECONDS)
    served: list[int] = []

    def serve() -> None:
        accepted, _ = listener.accept()
        with accepted:
            accepted.settimeout(SECONDS)
            got = _read_all(accepted)
            served.append(_segment(accepted))
            accepted.sendall(got)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener, client.call(_connect, dst, listener.getsockname()[1], src) as connection:
        connection.sendall(data)
        segment = _segment(connection)
        connection.shutdown(socket.SHUT_WR)
        back = _read_all(connection)
        thread.join(SECONDS)
    assert hashlib.sha256(back).digest() == hashlib.sha256(data).digest(), f"{len(back)} of {size} bytes"
    return Segments(segment, served[0])


def _connect(dst: str, port: int, src: str) -> socket.socket:
    return socket.create_connection((dst, port), SECONDS, source_address=(src, 0))


def _segment(connection: socket.socket) -> int:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)


def _read_all(connection: socket.socket) -> bytes:
    parts: list[bytes] = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


@dataclass
class Exchange:
    """Numbered datagrams from one end, each of them answered by the other, while something else goes on."""

    near: Inside
    far: Inside
    src: str
    dst: str
    every_seconds: float = 0.005
    sent: int = 0
    answered: set[int] = field(default_factory=set[int])

    def __enter__(self) -> Exchange:
        self._ended = threading.Event()
        self._echo = self.far.call(_bound, self.dst)
        self._socket = self.near.call(_bound, self.src)
        self._socket.connect((self.dst, self._echo.getsockname()[1]))
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (self._answer, self._send, self._receive)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._socket.close()
        self._echo.close()

    def _answer(self) -> None:
        while True:
            try:
                datagram, sender = self._echo.recvfrom(2048)
            except TimeoutError:
                if self._ended.is_set():
                    return
                continue
            self._echo.sendto(datagram, sender)

    def _send(self) -> None:
        while not self._ended.wait(self.every_seconds):
            # Between two networks Linux says so at once; what was not sent is not answered.
            with suppress(OSError):
                self._socket.send(self.sent.to_bytes(4))
            self.sent += 1

    def _receive(self) -> None:
        quiet_since = time.monotonic()
        while not self._ended.is_set() or time.monotonic() - quiet_since < 1.0:
            try:
                self.answered.add(int.from_bytes(self._socket.recv(2048)))
            except TimeoutError:
                continue
            quiet_since = time.monotonic()


def _bound(address: str) -> socket.socket:
    opened = socket.socket(family(address), socket.SOCK_DGRAM)
    opened.bind((address, 0))
    opened.settimeout(0.5)
    return opened
