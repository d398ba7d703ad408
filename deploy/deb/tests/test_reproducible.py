"""Two builds of one commit are the same file, bit for bit: other folder, other time, other settings of the shell."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from debian import TESTED

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
    source: Path, folder: Path, script: Sequence[str], *before: str, umask: int = 0o022, **settings: str
) -> list[Path]:
    subprocess.run(["git", "clone", "-q", str(source), str(folder)], check=True)
    (folder / "build").mkdir()
    for shared in ("uv", "roots"):
        (folder / "build" / shared).symlink_to(ROOT / "build" / shared)
    # Console and documentation are built from sources that the packages' build only reads.
    for built in ("service/console/dist", "build/docs/site"):
        shutil.copytree(ROOT / built, folder / built)
    programs = folder / "build/programs"
    programs.mkdir()
    (programs / "cargo").write_text(TIMELY)
    (programs / "cargo").chmod(0o755)
    cargo = shutil.which("cargo")
    assert cargo is not None
    settings |= {"CARGO_ITSELF": cargo, "PATH": f"{programs}:{os.environ['PATH']}"}
    name, *arguments = script
    command = [*before, sys.executable, str(folder / "deploy/deb" / name), *arguments]
    done = subprocess.run(
        command, env=os.environ | settings, umask=umask, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [folder / it for it in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("script", "count"),
    # One release will do: Rust's part is the same for each, and Python's is made the same way.
    [(("release.py", TESTED[0].tag), 4), (("sluice.py",), 1)],
    ids=["release", "sluice"],
)
def test_two_builds_of_one_commit_are_the_same(script: Sequence[str], count: int, tmp_path: Path) -> None:
    folder = tmp_path / "first"
    first = _build(ROOT, folder, script)
    second = _build(folder, tmp_path / "a-longer-path/second", script, *LATER, umask=0o027, **ELSEWHERE)
    assert len(first) == len(second) == count
    for one, other in zip(first, second, strict=True):
        sums = {hashlib.sha256(it.read_bytes()).hexdigest() for it in (one, other)}
        assert len(sums) == 1, f"diffoscope {one} {other}"
    staged = [it for it in (folder / "build").glob("deb*/**/root/**/*") if it.is_file()]
    assert staged
    assert [it for it in staged if str(tmp_path).encode() in it.read_bytes()] == []
    # The package's times are set on its own files alone.
    assert [it for it in staged if it.stat().st_nlink > 1] == []
