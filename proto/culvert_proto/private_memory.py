"""Keys that are in a process's memory stay there: in no core file, and read by no other program of the same user."""

from __future__ import annotations

import ctypes
import os
import resource

# prctl(2).
_PR_SET_DUMPABLE = 4


def keep_memory_private() -> None:
    """For the whole process; a program that it starts begins anew, but for the limit. Raises OSError.

    The limit alone does not count where the kernel pipes core files to a program (core(5)). Root may still look.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
