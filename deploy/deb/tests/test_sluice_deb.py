"""The package of the switch for P4 developers: what it installs runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# It is compiled for the package.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

ROOT = Path(__file__).resolve().parents[3]


def test_the_installed_sluice_runs(tmp_path: Path) -> None:
    build = [sys.executable, str(ROOT / "deploy/deb/sluice.py")]
    done = subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True)
    package = ROOT / done.stdout.splitlines()[-1]
    subprocess.run(["dpkg-deb", "-x", str(package), str(tmp_path)], check=True)
    scripts = subprocess.run(
        ["dpkg-deb", "--ctrl-tarfile", str(package)], check=True, capture_output=True
    ).stdout
    assert b"postinst" not in scripts, "it starts nothing"
    for command, said in [
        (("usr/bin/sluice", "--version"), "sluice "),
        (("usr/lib/sluice/bmv2/simple_switch_grpc", "--help"), "usage: simple_switch_grpc"),
    ]:
        run = [str(tmp_path / command[0]), command[1]]
        assert subprocess.run(run, check=True, capture_output=True, text=True).stdout.startswith(said)
    module = tmp_path / "usr/lib/python3/dist-packages/sluice_mininet.py"
    compile(module.read_text(), module.name, "exec")
