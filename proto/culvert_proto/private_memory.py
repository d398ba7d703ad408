"""Keeps the keys in a process's memory out of core files, and from other programs of the same user."""

from __future__ import annotations

import ctypes
import os
import resource

# prctl(2).
_PR_SET_DUMPABLE = 4


def keep_memory_private() -> None:
    """Protects the whole process. A program that it starts inherits only the limit. Raises OSError.

    The limit alone has no effect where the kernel pipes core files to a program (core(5)). Root can still read the memory.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
