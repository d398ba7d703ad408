"""Switches of Mininet, and bmv2's command line."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PYTHON = "/usr/bin/python3"
COMMAND = HERE.parent / "mininet/simple_switch_grpc"


def test_two_hosts_ping_through_a_switch(program: Path, tmp_path: Path) -> None:
    if shutil.which("mn") is None:
        pytest.skip("needs Mininet")
    command = ["unshare", "--net", PYTHON, str(HERE / "mininet_pair.py"), str(program), str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "s1: P4Runtime at 127.0.0.1:50051, device 1" in done.stdout
    assert done.stdout.endswith("lost 0 %\n"), done.stdout + done.stderr


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """The file that a `sluice`, first on the PATH, writes its arguments to."""
    stand_in = tmp_path / "bin/sluice"
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path / "said"}\n')
    stand_in.chmod(0o755)
    return tmp_path / "said"


def started(said: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = {**os.environ, "PATH": f"{said.parent / 'bin'}:{os.environ['PATH']}"}
    command = [PYTHON, str(COMMAND), *words]
    return subprocess.run(command, env=path, capture_output=True, text=True, timeout=20, check=False)


def test_bmv2s_command_line_becomes_sluices(said: Path, tmp_path: Path) -> None:
    json, p4info = tmp_path / "basic.json", tmp_path / "basic.p4.p4info.txtpb"
    words = ["-i", "1@s1-eth1", "--interface", "0@s1-eth2", "--pcap", "pcaps", "--nanolog", "ipc:///tmp/x"]
    words += ["--device-id", "0", str(json), "--log-console", "--thrift-port", "9090", "--"]
    words += ["--grpc-server-addr", "0.0.0.0:50051", "--cpu-port", "510"]
    rest = ["--device-id", "0", "--grpc", "127.0.0.1:50051", "--cpu-port", "510"]
    rest += ["-i", "1@s1-eth1", "-i", "0@s1-eth2"]
    assert "no P4Info beside it" in started(said, *words).stderr
    assert said.read_text().split("\n")[:-1] == ["dev", *rest]
    p4info.touch()
    assert started(said, *words).stderr == ""
    assert said.read_text().split("\n")[:-1] == ["dev", str(json), str(p4info), *rest]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--drop-port", "0"], "sluice drops what is sent to port 511"),
        (["--priority-queues", "8"], "unrecognized arguments"),
    ],
)
def test_what_would_change_forwarding_is_refused(said: Path, words: list[str], reason: str) -> None:
    done = started(said, "--no-p4", "-i", "1@x", *words)
    assert (done.returncode, reason in done.stderr) == (2, True), done.stderr
    assert not said.exists()
