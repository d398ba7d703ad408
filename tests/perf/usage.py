"""A process's use of time and memory, as the kernel counts it."""

from __future__ import annotations

import re
from pathlib import Path


def rss_mib(pid: int) -> float:
    """Resident memory. Raises OSError when the process is gone."""
    found = re.search(r"^Rss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def cpu_seconds(pid: int) -> float:
    """The processor time of all live threads, finer than the 10 ms of /proc/PID/stat."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((it / "schedstat").read_text().split()[0]) for it in threads) / 1e9
