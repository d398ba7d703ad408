"""Two builds of one commit are the same file, bit for bit: other folder, other time, other settings of the shell."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

ROOT = Path(__file__).resolve().parents[3]
LATER = ("faketime", "-f", "+3d")
# The Rust compiler never ends under faketime, so Cargo alone has the true time.
TIMELY = """#!/bin/sh
unset LD_PRELOAD FAKETIME FAKETIME_SHARED
exec "$CARGO_ITSELF" "$@"
"""
ELSEWHERE = {"TZ": "Pacific/Auckland", "LC_ALL": "C.UTF-8"}


def _build(
    source: Path, folder: Path, script: str, *before: str, umask: int = 0o022, **settings: str
) -> Path:
    subprocess.run(["git", "clone", "-q", str(source), str(folder)], check=True)
    (folder / "build").mkdir()
    (folder / "build/uv").symlink_to(ROOT / "build/uv")
    programs = folder / "build/programs"
    programs.mkdir()
    (programs / "cargo").write_text(TIMELY)
    (programs / "cargo").chmod(0o755)
    cargo = shutil.which("cargo")
    assert cargo is not None
    settings |= {"CARGO_ITSELF": cargo, "PATH": f"{programs}:{os.environ['PATH']}"}
    command = [*before, sys.executable, str(folder / "deploy/deb" / script)]
    done = subprocess.run(
        command, env=os.environ | settings, umask=umask, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


@pytest.mark.parametrize("script", ["build.py", "sluice.py"], ids=["client", "sluice"])
def test_two_builds_of_one_commit_are_the_same(script: str, tmp_path: Path) -> None:
    folder = tmp_path / "first"
    first = _build(ROOT, folder, script)
    second = _build(folder, tmp_path / "a-longer-path/second", script, *LATER, umask=0o027, **ELSEWHERE)
    first_sum, second_sum = (hashlib.sha256(it.read_bytes()).hexdigest() for it in (first, second))
    assert first_sum == second_sum, f"diffoscope {first} {second}"
    content = b"".join(it.read_bytes() for it in first.parents[1].rglob("*/root/**/*") if it.is_file())
    assert str(tmp_path).encode() not in content
