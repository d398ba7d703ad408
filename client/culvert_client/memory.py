"""The daemon stays as small as it began, however long it runs."""

from __future__ import annotations

import ctypes

# mallopt(3). A netlink socket's receive buffer is larger.
_M_MMAP_THRESHOLD, _OWN_PAGES_FROM = -3, 64 * 1024


def keep_small() -> None:
    """Large buffers get pages of their own, and give them back.

    glibc raises that size by itself whenever such a buffer is freed: the next ones then lie in the heap, which grew by
    10 KiB a click with them.
    """
    # Other C libraries have no such call, and other allocators.
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_MMAP_THRESHOLD, _OWN_PAGES_FROM)
