"""Fixtures: a desktop with a tray host, a daemon that serves canned statuses, and the tray as its own process."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .canned_daemon import CannedDaemon
from .desktop import Desktop, wait_until

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    with Desktop(tmp_path_factory.mktemp("desktop")) as desktop:
        yield desktop


@pytest.fixture
def canned(tmp_path: Path) -> Iterator[CannedDaemon]:
    daemon = CannedDaemon(tmp_path / "culvertd.sock")
    daemon.start()
    yield daemon
    daemon.stop()


@pytest.fixture
def start_tray(tmp_path: Path) -> Iterator[Start]:
    """start_tray(desktop, *more arguments, **more environment)"""
    started: list[subprocess.Popen[bytes]] = []

    def start(desktop: Desktop, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        # A test remembers nothing of the test before.
        (Path(desktop.env["HOME"]) / ".config/culvert/tray.json").unlink(missing_ok=True)
        tray = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "culvert_tray.app",
                "--socket",
                str(tmp_path / "culvertd.sock"),
                *arguments,
            ],
            env=desktop.env | environment,
        )
        started.append(tray)
        return tray

    yield start
    for tray in started:
        wait_until(lambda tray=tray: tray.poll() is not None or catches_sigterm(tray), "no signal handler")
        if tray.poll() is None:
            tray.terminate()
            assert tray.wait(10) == 0


def catches_sigterm(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has a handler; before that, the signal would end it with a fault's exit code."""
    caught = re.search(r"^SigCgt:\t(\w+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)
