"""Packets to blocked prefixes, which the kernel reports (ACQUIRE) because their policy requires an SA that does not exist.

The kernel records its request as a state and sends no further one for the same policy while that exists
(`net.core.xfrm_acq_expires`, 30 s). Each `take` removes the state, so that a flood causes at most one at a time.
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
        """A descriptor that is readable while `take` has destinations to return."""
        return self._events.fileno()

    def take(self) -> frozenset[Address]:
        """The destinations of trapped packets. Never waits."""
        found: set[Address] = set()
        # With ENOBUFS some were lost; a program that expects an answer sends again.
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
