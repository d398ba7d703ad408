"""sluice under a service manager: readiness, the watchdog, and the unit."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_target import ROOT
from sluice_rig import Sluice, flat

UNIT = ROOT / "deploy/systemd/sluice@.service"
# systemd's own scale; 10 is no protection at all.
MAX_EXPOSURE = 2.5


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "3000000")
        yield listening


@pytest.mark.slow
def test_ready_alive_and_ending_are_told(
    rig: None, manager: socket.socket, program: Path, arguments: dict[str, str], tmp_path: Path
) -> None:
    switch = Sluice(program, flat(arguments), tmp_path / "sluice.log")
    told = [manager.recv(64).strip() for _ in range(4)]
    assert told.count(b"READY=1") == 1
    assert told.count(b"WATCHDOG=1") == 3
    assert switch.stop() == 0
    while (last := manager.recv(64).strip()) == b"WATCHDOG=1":
        pass
    assert last == b"STOPPING=1"


def test_the_unit_is_sound_and_confined(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    # The binary is not installed here.
    unit.write_text(UNIT.read_text().replace("/usr/bin/sluice", "/bin/true"))
    found = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "sluice@gateway.service"), str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "sluice@" not in found.stderr, found.stderr
    said = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    exposure = re.search(r"Overall exposure level for .*: ([0-9.]+)", said)
    assert exposure is not None, said
    assert float(exposure[1]) <= MAX_EXPOSURE


def test_the_unit_gives_options_that_exist(program: Path) -> None:
    text = UNIT.read_text().replace("\\\n", " ")
    command = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    said = subprocess.run([program, "run", "--help"], capture_output=True, text=True, check=True).stdout
    for option in re.findall(r"--[a-z-]+", command):
        assert option in said
