"""Packets to what is blocked, as the kernel tells of them (ACQUIRE): their policy wants an SA that there is not.

The kernel notes that it has asked, and asks no more while the note stands, whatever else is wanted under the same policy
(`net.core.xfrm_acq_expires`, 30 s). Each `take` removes it: one note at a time is all that a flood can cause.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from typing import Self

from culvert_ipsec.xfrm_plan import INDICES, TRAP
from culvert_ipsec.xfrm_socket import GROUP_ACQUIRE, XfrmEvents, XfrmSocket

Address = IPv4Address | IPv6Address


class Acquires:
    """Raises OSError."""

    def __init__(self) -> None:
        self._xfrm = XfrmSocket()
        try:
            self._events = XfrmEvents(GROUP_ACQUIRE)
        except OSError:
            self._xfrm.close()
            raise
        self._forget()

    def fileno(self) -> int:
        """Readable while `take` has something to tell."""
        return self._events.fileno()

    def take(self) -> frozenset[Address]:
        """The destinations of trapped packets. Never waits."""
        found: set[Address] = set()
        # ENOBUFS: some were lost. A program that wants an answer sends again.
        with suppress(OSError):
            found.update(self._events.take_acquired(INDICES))
        self._forget()
        return frozenset(found)

    def close(self) -> None:
        self._forget()
        self._events.close()
        self._xfrm.close()

    def _forget(self) -> None:
        # The kernel removes only an SA that has an SPI.
        with suppress(OSError):
            self._xfrm.remove_sa(self._xfrm.give_spi(TRAP))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
