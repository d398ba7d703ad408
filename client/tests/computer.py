"""A computer with a daemon of its own and a WAN, of which each frame is seen.

 isp ── wan ── computer: culvertd, and programs that send to what is protected

The provider has every protected address, too: a packet that leaks is sent on, and is seen.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path
from typing import TypeVar

from culvert_lab import netns
from culvert_lab.netns import Inside

PROTECTED = (ip_network("10.20.0.0/16"), ip_network("fd20::/32"))
ADDRESSES = ("10.20.0.10", "fd20::10")
ELSEWHERE = "203.0.113.5"

_ALL_FRAMES = 3
_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"
_PATIENCE = 60.0

Value = TypeVar("Value")


class Computer:
    """Needs root."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.log = directory / "log"
        self._isp = f"{name}-isp"
        self._name = name
        self._inside = Inside(name)
        self._tap = self.call(_tap)

    def call(self, function: Callable[[], Value]) -> Value:
        """In this computer's network."""
        return self._inside.call(function)

    def run(self, *argv: str, check: bool = True) -> str:
        """A program on this computer."""
        ended = self.call(lambda: subprocess.run(argv, capture_output=True, text=True, check=False))
        assert ended.returncode == 0 or not check, (argv, ended.stderr)
        return ended.stdout

    @contextlib.contextmanager
    def daemon(
        self, *settings: str, under: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> Generator[subprocess.Popen[bytes]]:
        """`under` is what runs it. It is killed at the end if it has not ended."""
        # The tests count the kernel's IPsec policies only, so missing ciphers do not matter: no tunnel is opened.
        main = (
            "from culvert_ipsec import Kernel; Kernel._probe = lambda _: None\n"
            "from culvert_client.daemon import main; main()"
        )
        argv = [*under, sys.executable, "-c", main, "--state-dir", str(self.state)]
        argv += ["--socket", str(self.directory / "sock"), "--dns-upstream", "127.0.0.9"]
        argv += ["--dns-listen", "127.0.0.1:5353", *settings]
        with self.log.open("ab") as log:
            environment = os.environ | dict(env or {})
            started = self.call(lambda: subprocess.Popen(argv, stdout=log, stderr=log, env=environment))
        try:
            yield started
        finally:
            started.kill()
            started.wait()

    @property
    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            assert time.monotonic() < deadline, (self.said, self.status())
            time.sleep(0.05)

    def status(self) -> str:
        """The output of `culvert status`."""
        asked = "from culvert_client.cli import app; app()"
        argv = [sys.executable, "-c", asked, "--socket", str(self.directory / "sock"), "status"]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False)
        return ended.stdout + ended.stderr

    @contextlib.contextmanager
    def sending(self) -> Generator[None]:
        """Programs that send to what is protected, a packet of each family each millisecond."""
        ended = threading.Event()
        thread = threading.Thread(target=lambda: self._inside_too(lambda: _send(ended)))
        thread.start()
        try:
            yield
            # Some packets meet the latest change of another program.
            time.sleep(0.2)
        finally:
            ended.set()
            thread.join()

    def _inside_too(self, work: Callable[[], None]) -> None:
        netns.enter(netns.NETNS_DIR / self._name)
        work()

    def leaked(self) -> list[str]:
        """The protected destinations of frames that were sent in clear since the last call."""
        found: list[str] = []
        while True:
            try:
                frame, address = self._tap.recvfrom(65536)
            except BlockingIOError:
                return found
            # Only frames that this computer sends count, not those of its neighbours.
            if address[2] == socket.PACKET_OUTGOING and (to := _destination(frame)) is not None:
                found += [str(to)] if any(to in it for it in PROTECTED) else []

    def reaches(self, address: str) -> bool:
        return "1 received" in self.run("ping", "-n", "-c1", "-W1", address, check=False)

    def close(self) -> None:
        self._tap.close()
        self._inside.close()


@contextlib.contextmanager
def computer(directory: Path) -> Generator[Computer]:
    name = f"culvert-test-{os.getpid()}-pc"
    isp = f"{name}-isp"
    try:
        for it in (name, isp):
            netns.create(it)
            _ip("-n", it, "link", "set", "lo", "up")
        _ip("link", "add", "wan", "netns", name, "type", "veth", "peer", "name", "there", "netns", isp)
        _ip("-n", name, "address", "add", "dev", "wan", "198.51.100.10/24")
        _ip("-n", name, "address", "add", "dev", "wan", "2001:db8::10/64", "nodad")
        _ip("-n", isp, "address", "add", "dev", "there", "198.51.100.1/24")
        _ip("-n", isp, "address", "add", "dev", "there", "2001:db8::1/64", "nodad")
        for address in (*ADDRESSES, ELSEWHERE):
            _ip("-n", isp, "address", "add", "dev", "lo", address, *(["nodad"] if ":" in address else []))
        _ip("-n", name, "link", "set", "wan", "up")
        _ip("-n", isp, "link", "set", "there", "up")
        _ip("-n", name, "route", "add", "default", "via", "198.51.100.1")
        _ip("-n", name, "-6", "route", "add", "default", "via", "2001:db8::1")
        made = Computer(directory, name)
        try:
            made.until(lambda: all(map(made.reaches, ADDRESSES)))
            # The test sees what leaves in clear.
            assert set(made.leaked()) == set(ADDRESSES)
            yield made
        finally:
            made.close()
    finally:
        for it in (name, isp):
            netns.delete(it)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _tap() -> socket.socket:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_FRAMES))
    tap.bind(("wan", _ALL_FRAMES))
    tap.setblocking(False)
    return tap


def _send(ended: threading.Event) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ipv4,
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as ipv6,
    ):
        while not ended.wait(0.001):
            for sender, address in zip((ipv4, ipv6), ADDRESSES, strict=True):
                with contextlib.suppress(OSError):
                    sender.sendto(b"secret", (address, 9))


def _destination(frame: bytes) -> IPv4Address | IPv6Address | None:
    if frame[12:14] == _IPV4:
        return IPv4Address(frame[30:34])
    return IPv6Address(frame[38:54]) if frame[12:14] == _IPV6 else None
