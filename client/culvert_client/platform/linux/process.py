"""The daemon's process: its memory (mallopt(3), memfd_create(2)), its end by systemd's report (systemd.exec(5)), the
computer's sleep."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Generator
from contextlib import contextmanager

# mallopt(3). The threshold is below the size of a netlink socket's receive buffer.
_M_MMAP_THRESHOLD, _OWN_PAGES_FROM = -3, 64 * 1024


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
