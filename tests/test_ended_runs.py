"""A run of tests that is ended early leaves no program of its fixtures behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WAITS = """
import asyncio, subprocess, time
import pytest

@pytest.fixture
def program():
    with open("pid", "w") as file, subprocess.Popen(["sleep", "60"]) as program:
        print(program.pid, file=file, flush=True)
        yield
        program.terminate()

def test_waits(program):
    print("waits", flush=True)
    time.sleep(60)

async def test_waits_in_a_loop(program):
    print("waits", flush=True)
    await asyncio.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("test", ["test_waits", "test_waits_in_a_loop"])
def test_sigterm_ends_fixtures(tmp_path: Path, test: str) -> None:
    (tmp_path / "test_it.py").write_text(WAITS)
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    options = ("-s", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, f"test_it.py::{test}"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        said = ""
        while "waits" not in (line := run.stdout.readline().split("::")[-1]):
            assert line, said
            said += line
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) == pytest.ExitCode.INTERRUPTED
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
