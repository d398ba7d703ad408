"""Keeps the keys in a process's memory out of core files and of swap space, and from other programs of the same user."""

from __future__ import annotations

import ctypes
import logging
import os
from pathlib import Path

# prctl(2).
_PR_SET_DUMPABLE = 4
# mlockall(2): also pages that do not exist yet, but none before it is used.
_MCL_CURRENT_FUTURE_ONFAULT = 1 | 2 | 4

_log = logging.getLogger(__name__)


def keep_memory_private() -> None:
    """Protects the whole process. A program that it starts inherits only the limits. Raises OSError.

    RLIMIT_CORE alone has no effect where the kernel pipes core files to a program (core(5)). Root can still read the
    memory.
    """
    # Programs import this module before they refuse a system that has no such limits.
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    _lock(libc)


def _lock(libc: ctypes.CDLL) -> None:
    """Locks all pages or, where a limit counts, none: at the limit each later allocation would fail."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    # Under a limit of 0, mlockall succeeds only with CAP_IPC_LOCK, and for such a process no limit counts.
    limit = hard if hard == resource.RLIM_INFINITY else 0
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, hard))
    libc.mlockall(_MCL_CURRENT_FUTURE_ONFAULT)
    if limit == 0:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


def warn_if_not_locked() -> None:
    """For a service, after `keep_memory_private` and when its log is set up."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    if fields["VmLck"].split()[0] == "0":
        _log.warning(
            "keys in memory can reach the swap space: the system does not let this process lock its memory. Set "
            "LimitMEMLOCK=infinity in its unit, or encrypt the swap space"
        )
