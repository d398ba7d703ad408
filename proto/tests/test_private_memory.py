"""Whether a real core file of a process has the key that is in the process's memory."""

from __future__ import annotations

import resource
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_ABORTS = """
import os, resource, sys
from culvert_proto.private_memory import keep_memory_private
key = bytes.fromhex(sys.stdin.read())
if sys.argv[1] == "private where the limit does not count":
    # Acts as if the kernel piped core files to a program.
    resource.setrlimit = lambda *_: None
if sys.argv[1] != "not private":
    keep_memory_private()
os.abort()
"""


@pytest.mark.parametrize("kind", ["private", "private where the limit does not count", "not private"])
def test_no_core_file_holds_a_key_of_a_private_process(tmp_path: Path, kind: str) -> None:
    if Path("/proc/sys/kernel/core_pattern").read_text()[:1] in "|/":
        pytest.skip("the kernel writes core files elsewhere")
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    key = secrets.token_bytes(32)
    ended = subprocess.run(
        [sys.executable, "-c", _ABORTS, kind],
        input=key.hex().encode(),
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, unlimited),
        check=False,
    )
    assert ended.returncode == -signal.SIGABRT
    assert any(key in core.read_bytes() for core in tmp_path.iterdir()) is (kind == "not private")
