"""The daemon's process: its memory (mallopt(3), memfd_create(2)), its start and end with systemd (sd_notify(3),
systemd.exec(5)), the computer's sleep."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager

from culvert_proto.service_manager import tell_ready as tell_ready

# mallopt(3). The threshold is below the size of a netlink socket's receive buffer.
_M_MMAP_THRESHOLD, _OWN_PAGES_FROM = -3, 64 * 1024
_UNIT = "culvertd.service"
_SYSTEMCTL_SECONDS = 3.0


def keep_small() -> None:
    """Give large buffers their own pages, which are returned to the system when they are freed.

    Otherwise glibc raises the threshold whenever such a buffer is freed, and later buffers lie in the heap, which then
    grew by 10 KiB per click.
    """
    # Other C libraries lack this call.
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_MMAP_THRESHOLD, _OWN_PAGES_FROM)


def was_stopped() -> bool:
    """As Process."""
    return os.environ.get("SERVICE_RESULT", "success") == "success"


def is_restarted() -> bool:
    """As Process. A unit's job is of the type `restart` until the unit has stopped (systemctl(1), list-jobs)."""
    if "INVOCATION_ID" not in os.environ:
        return False
    ask = ["systemctl", "list-jobs", "--plain", "--no-legend", "--full", _UNIT]
    try:
        said = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=_SYSTEMCTL_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return any(line.split()[1:3] == [_UNIT, "restart"] for line in said.stdout.splitlines())


@contextmanager
def private_file(content: bytes) -> Generator[str]:
    """As Process."""
    descriptor = os.memfd_create("culvert-identity", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def slept() -> float:
    """As Process (clock_gettime(2))."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
