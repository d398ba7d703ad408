"""SAs that have reached a limit or ended, found by the kernel's notices (EXPIRE) or by reading the counters."""

from __future__ import annotations

import errno
import os
import select
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Self

from culvert_ipsec.datapath import SoftLimit
from culvert_ipsec.xfrm_plan import Owner
from culvert_ipsec.xfrm_sad import Sad
from culvert_ipsec.xfrm_socket import GROUP_EXPIRE, XfrmEvents
from culvert_ipsec.xfrm_values import SaName, SaSeen


class Notices:
    """Any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events = XfrmEvents(GROUP_EXPIRE)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._readable = select.epoll()
        self._readable.register(self._events, select.EPOLLIN)
        self._readable.register(self._bell, select.EPOLLIN)
        self._expiring: list[SaName] = []
        self._ended: list[SaSeen] = []
        self._found: list[SoftLimit] = []
        self._missed = False

    def fileno(self) -> int:
        """A descriptor that is readable while `take` has notices to examine."""
        return self._readable.fileno()

    def take(self, owners: Mapping[SaName, Owner]) -> list[SoftLimit]:
        """Never waits."""
        with self._lock:
            self._read()
            names = list(owners) if self._missed else self._expiring
            expiring = [soft_limit(name, owners[name]) for name in names if name in owners]
            found, self._found, self._expiring, self._missed = self._found + expiring, [], [], False
            with suppress(BlockingIOError):
                os.eventfd_read(self._bell)
            return found

    def add(self, found: Iterable[SoftLimit]) -> None:
        with self._lock:
            self._found += found
            self._ring()

    def tell_ended(self, sad: Sad) -> None:
        """Report the SAs that the kernel has removed at a hard limit, with their last counts."""
        with self._lock:
            self._read()
            ended, self._ended = self._ended, []
            self._ring()
        for seen in ended:
            sad.note_end(seen.name, seen)

    def close(self) -> None:
        with self._lock:
            self._readable.close()
            os.close(self._bell)
            self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        try:
            for expired in self._events.take_expired():
                if expired.hard:
                    self._ended.append(expired.sa)
                else:
                    self._expiring.append(expired.sa.name)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            # Some notices were lost, so report all SAs: an unneeded rekey is better than an expired SA.
            self._missed = True

    def _ring(self) -> None:
        if self._expiring or self._found or self._missed:
            os.eventfd_write(self._bell, 1)


def soft_limit(name: SaName, owner: Owner) -> SoftLimit:
    _destination, spi = name
    return SoftLimit(owner.tunnel_id, spi, owner.inbound)
