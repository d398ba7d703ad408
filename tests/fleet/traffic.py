"""The signs of an upgrade that a person notices: packets that do not come back, and pages that do not open."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import threading
import time
from types import TracebackType

from culvert_lab.netns import Inside

from .machines import Machine

_INTERVAL = 0.01
_LAST_ANSWERS = 1.0
_ECHO, _ANSWER = 8, 0
_HEADER = struct.Struct("!BBHHHQ")
_IPV4_HEADER = 20


class Echo:
    """A hundred echo requests (RFC 792) a second, while it is entered. `lost`: those without an answer, at its end."""

    def __init__(self, inside: Inside, address: str) -> None:
        self._address = address
        self._identifier = os.getpid() & 0xFFFF
        self._socket = inside.call(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self._socket.settimeout(0.2)
        self._sent_at: list[float] = []
        self._answered_at: dict[int, float] = {}
        self._ends, self._ended = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=it) for it in (self._send, self._receive)]

    def __enter__(self) -> Echo:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        time.sleep(_LAST_ANSWERS)
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._socket.close()

    @property
    def sent(self) -> int:
        return len(self._sent_at)

    @property
    def lost(self) -> int:
        return self.sent - len(self._answered_at)

    @property
    def interruption(self) -> float:
        """Seconds from the first request without an answer to the next one that has one; of several, the longest."""
        longest, began = 0.0, None
        for number, at in enumerate(self._sent_at):
            if number in self._answered_at:
                longest, began = max(longest, at - began if began else 0.0), None
            else:
                began = began or at
        return longest if began is None else max(longest, time.monotonic() - began)

    def _send(self) -> None:
        due = time.monotonic()
        while not self._ends.is_set():
            number = len(self._sent_at)
            self._sent_at.append(time.monotonic())
            # Culvert blocks what has no tunnel: it is lost.
            with contextlib.suppress(OSError):
                self._socket.sendto(self._write(number), (self._address, 0))
            due = max(due + _INTERVAL, time.monotonic() - _INTERVAL)
            time.sleep(max(0.0, due - time.monotonic()))

    def _write(self, number: int) -> bytes:
        fields = (self._identifier, number & 0xFFFF, number)
        words = struct.unpack("!8H", _HEADER.pack(_ECHO, 0, 0, *fields))
        total = sum(words)
        total = (total & 0xFFFF) + (total >> 16)
        return _HEADER.pack(_ECHO, 0, ~(total + (total >> 16)) & 0xFFFF, *fields)

    def _receive(self) -> None:
        while not self._ended.is_set():
            try:
                packet = self._socket.recv(2048)[_IPV4_HEADER:]
            except TimeoutError:
                continue
            if len(packet) == _HEADER.size:
                kind, _, _, identifier, _, number = _HEADER.unpack(packet)
                if kind == _ANSWER and identifier == self._identifier:
                    self._answered_at.setdefault(number, time.monotonic())


class Clicks:
    """A person opens a page through a new tunnel, again and again, while it is entered.

    `failed`: with the reasons. `outage`: seconds from a click that failed to the next page, of several the longest.
    """

    def __init__(self, laptop: Machine, name: str, expected: str) -> None:
        self._laptop, self._name, self._expected = laptop, name, expected
        self.made, self.longest, self.outage, self.failed = 0, 0.0, 0.0, list[str]()
        self._opened = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Clicks:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    def after(self, more: int, seconds: float = 120.0) -> None:
        """Until as many pages more have opened."""
        wanted, end = self._opened + more, time.monotonic() + seconds
        while self._opened < wanted:
            assert time.monotonic() < end, self.failed
            time.sleep(0.05)

    def _run(self) -> None:
        failing_since: float | None = None
        while not self._ends.is_set():
            began = time.monotonic()
            fault = click(self._laptop, self._name, self._expected)
            self.longest = max(self.longest, time.monotonic() - began)
            if fault:
                self.failed.append(fault)
                failing_since = failing_since or began
            if failing_since is not None:
                self.outage = max(self.outage, time.monotonic() - failing_since)
                failing_since = failing_since if fault else None
            self.made += 1
            self._opened += not fault
            self._do("culvert", "close", self._name)

    def _do(self, *command: str) -> None:
        subprocess.run(self._laptop.debian.command(*command), capture_output=True, check=False)


def click(laptop: Machine, name: str, expected: str) -> str:
    """Open a page as a browser does. Empty, or why it did not open."""
    ask = ["wget", "-q", "-O-", "--tries=1", "--timeout=20", f"http://{name}/"]
    done = subprocess.run(
        laptop.debian.command(*ask), capture_output=True, text=True, check=False, timeout=60
    )
    if expected in done.stdout:
        return ""
    said = subprocess.run(
        laptop.debian.command("culvert", "status"), capture_output=True, text=True, check=False
    )
    return f"wget ended with {done.returncode}: {done.stderr} {said.stdout}{said.stderr}"
