"""`tray_start_ms`: from the start of culvert-tray to its icon in the panel; `tray_rss_mib`: its memory then, at rest.

On the desktop of the tray's own tests, beside a daemon that serves a canned status.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import statuses
from canned_daemon import CannedDaemon
from desktop import Desktop, wait_until
from figures import Figure
from usage import rss_mib

NAMES = ("tray_start_ms", "tray_rss_mib")
STARTS = 5
REST_SECONDS = 3.0
_PATIENCE_SECONDS = 20.0


def measure() -> list[Figure]:
    """The medians of STARTS. Raises RuntimeError when no icon comes."""
    with tempfile.TemporaryDirectory() as kept, Desktop(Path(kept)) as desktop:
        daemon = CannedDaemon(Path(kept) / "culvertd.sock")
        daemon.show(statuses.connected(now=time.time()))
        daemon.start()
        try:
            runs = [_once(desktop, daemon.socket) for _ in range(STARTS + 1)]
        finally:
            daemon.stop()
    # The first reads it all from the disk.
    took, memory = zip(*runs[1:], strict=True)
    return [Figure("tray_start_ms", median(took), "ms"), Figure("tray_rss_mib", median(memory), "MiB")]


def _once(desktop: Desktop, socket: Path) -> tuple[float, float]:
    wait_until(lambda: desktop.tray_icon() is None, "the icon before is still there")
    began = time.perf_counter()
    program = [str(Path(sys.executable).with_name("culvert-tray")), "--socket", str(socket)]
    tray = subprocess.Popen(program, env=desktop.env)
    try:
        while desktop.tray_icon() is None:
            if time.perf_counter() - began > _PATIENCE_SECONDS:
                raise RuntimeError("the tray's icon did not come")
        took = (time.perf_counter() - began) * 1e3
        time.sleep(REST_SECONDS)
        return took, rss_mib(tray.pid)
    finally:
        tray.terminate()
        tray.wait()
