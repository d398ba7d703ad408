"""`make audit`: a lock file that could not be checked is reported as not checked."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="cuts the network off, as root")
def test_without_a_network_every_lock_file_is_named_as_not_checked() -> None:
    kinds = ("*Cargo.lock", "*requirements.lock", "deploy/setup/*.lock", "*package-lock.json")
    listed = ["git", "ls-files", *kinds]
    locks = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert len(locks) >= 7
    command = ["unshare", "--net", str(ROOT / "deploy/setup/audit")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert all("NOT CHECKED: " in line for line in ended.stdout.splitlines())
    assert sorted(line.split()[0] for line in ended.stdout.splitlines()) == sorted(locks)
