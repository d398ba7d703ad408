"""Whether a real core file of a process has the key that is in the process's memory, and whether its pages are locked."""

from __future__ import annotations

import os
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
    key = secrets.token_bytes(32)
    ended = subprocess.run(
        ["prlimit", "--core=unlimited", sys.executable, "-c", _ABORTS, kind],
        input=key.hex().encode(),
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode == -signal.SIGABRT
    assert any(key in core.read_bytes() for core in tmp_path.iterdir()) is (kind == "not private")


_GROWS = """
import logging, sys
from culvert_proto.private_memory import keep_memory_private, warn_if_not_locked
logging.basicConfig(stream=sys.stdout)
keep_memory_private()
warn_if_not_locked()
grown = bytearray(64 << 20)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmLck:")))
"""
_LIMIT = 8 << 20


def _grows(*command: str) -> tuple[str, int]:
    """Starts a process that needs more memory than it may lock. Returns what it logs, and the KiB that it has locked."""
    # Not by `preexec_fn`: it forks, and gRPC's threads of this process then abort the child (grpc 43055).
    ended = subprocess.run(
        [*("prlimit", f"--memlock={_LIMIT}"), *command, sys.executable, "-c", _GROWS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    *log, locked = ended.stdout.splitlines()
    return "".join(log), int(locked)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up a capability")
def test_a_partial_memory_lock_limit_locks_nothing_and_logs_the_remedy() -> None:
    log, locked = _grows("setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock")
    assert "LimitMEMLOCK=infinity" in log
    assert locked == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has CAP_IPC_LOCK")
def test_a_process_that_may_lock_all_of_its_memory_does_so() -> None:
    log, locked = _grows()
    assert log == ""
    assert locked > 64 << 10
