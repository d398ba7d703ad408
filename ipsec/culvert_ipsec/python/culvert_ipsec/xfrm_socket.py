"""The kernel's XFRM over netlink: one call for each step, and its notices. `xfrm_wire.py` encodes the messages."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from culvert_ipsec import xfrm_wire as wire
from culvert_ipsec.netlink import NetlinkSocket, messages, open_socket
from culvert_ipsec.netlink_messages import NETLINK_XFRM, NLM_F_CREATE, NLM_F_EXCL
from culvert_ipsec.xfrm_values import (
    Address,
    Direction,
    Expired,
    Policy,
    Replay,
    Sa,
    SaName,
    SaSeen,
    Template,
    Traffic,
)
from culvert_ipsec.xfrm_wire import MessageType

# linux/xfrm.h
GROUP_ACQUIRE, GROUP_EXPIRE = 1, 2


class XfrmSocket(NetlinkSocket):
    """Every method may raise OSError with the kernel's reason, whose text contains no key."""

    def __init__(self) -> None:
        super().__init__(NETLINK_XFRM)

    def add_sa(self, sa: Sa, after: Replay) -> None:
        """Add an SA, also in place of a state without SPI from an ACQUIRE. Raises FileExistsError if the SA exists."""
        body, attributes = wire.state(sa, after)
        try:
            self._tell(MessageType.NEWSA, body, attributes, NLM_F_CREATE | NLM_F_EXCL)
        except FileExistsError:
            with suppress(ProcessLookupError):
                self.sa(sa.name)
                raise
            self._tell(MessageType.UPDSA, body, attributes)

    def remove_sa(self, name: SaName) -> None:
        self._tell(MessageType.DELSA, wire.state_id(name))

    def sa(self, name: SaName) -> SaSeen:
        """Raises ProcessLookupError, also for a state that only records an ACQUIRE: it has no counters."""
        body, attributes = self._ask(MessageType.GETSA, MessageType.NEWSA, wire.state_id(name))
        if not wire.ALGORITHMS & attributes.keys():
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        return wire.read_state(body, attributes)

    def sas(self) -> list[SaSeen]:
        return [wire.read_state(*it) for it in self._all(MessageType.GETSA, MessageType.NEWSA)]

    def give_spi(self, template: Template) -> SaName:
        """Give an SPI to the state that records the ACQUIRE of this SA; the kernel makes one if there is none."""
        return wire.read_state(
            *self._ask(MessageType.ALLOCSPI, MessageType.NEWSA, wire.spi_wanted(template))
        ).name

    def put_policy(self, policy: Policy, index: int) -> None:
        body, attributes = wire.policy(policy, index)
        self._tell(MessageType.UPDPOLICY, body, attributes, NLM_F_CREATE)

    def remove_policy(self, direction: Direction, traffic: Traffic) -> None:
        self._tell(MessageType.DELPOLICY, wire.policy_id(direction, traffic))

    def policies(self, mine: range) -> list[tuple[int, Direction, Traffic, bool]]:
        """Our policies: index, direction, traffic, and whether packets need an SA."""
        return [
            (*found, "XFRMA_TMPL" in attributes)
            for body, attributes in self._all(MessageType.GETPOLICY, MessageType.NEWPOLICY)
            if (found := wire.read_policy(body, mine)) is not None
        ]

    def _tell(
        self, kind: MessageType, body: bytes, attributes: dict[str, bytes] | None = None, flags: int = 0
    ) -> None:
        self.request(kind, wire.payload(kind, body, attributes or {}), flags)

    def _ask(self, kind: MessageType, answer: MessageType, body: bytes) -> tuple[bytes, dict[str, bytes]]:
        (data,) = self.request(kind, wire.payload(kind, body, {}))
        return wire.body_and_attributes(answer, data)

    def _all(self, kind: MessageType, answer: MessageType) -> list[tuple[bytes, dict[str, bytes]]]:
        found = self.dump(kind, wire.payload(kind, b"", {}))
        return [wire.body_and_attributes(answer, data) for data in found]


class XfrmEvents:
    """The kernel's notices of one kind; `fileno` is readable while a notice waits."""

    def __init__(self, groups: int) -> None:
        self._socket = open_socket(NETLINK_XFRM, groups)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def take_expired(self) -> Iterator[Expired]:
        """Never waits. Raises OSError(ENOBUFS) when some were lost."""
        for data in self._take(MessageType.EXPIRE):
            yield wire.read_expire(wire.body_and_attributes(MessageType.EXPIRE, data)[0])

    def take_acquired(self, mine: range) -> Iterator[Address]:
        """Destinations of packets that wait for an SA under one of our policies. Never waits. Raises OSError(ENOBUFS)."""
        for data in self._take(MessageType.ACQUIRE):
            wanted = wire.read_acquire(wire.body_and_attributes(MessageType.ACQUIRE, data)[0], mine)
            if wanted is not None:
                yield wanted

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, kind: MessageType) -> Iterator[bytes]:
        while True:
            try:
                found = list(messages(self._socket))
            except BlockingIOError:
                return
            yield from (message.data for message in found if message.kind == kind)
