"""The kernel's XFRM over netlink: one call a step, and what it tells by itself. `xfrm_wire.py` has the bytes."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import struct
from collections.abc import Iterator
from typing import Self

from pyroute2.netlink import NETLINK_XFRM, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR

from culvert_ipsec import xfrm_wire as wire
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
from culvert_ipsec.xfrm_wire import Kind

# linux/netlink.h
_HEADER = struct.Struct("=IHHII")
_NLM_F_CREATE, _NLM_F_EXCL = 0x400, 0x200
_RECEIVE = 1 << 16
_KERNEL = 0
# linux/xfrm.h
GROUP_ACQUIRE, GROUP_EXPIRE = 1, 2


class XfrmSocket:
    """Every method may raise OSError with the kernel's reason, whose text holds no key."""

    def __init__(self) -> None:
        self._socket = _open(0)
        self._numbers = itertools.count(1)

    def add_sa(self, sa: Sa, after: Replay) -> None:
        body, attributes = wire.state(sa, after)
        self._tell(Kind.NEWSA, body, attributes, _NLM_F_CREATE | _NLM_F_EXCL)

    def remove_sa(self, name: SaName) -> None:
        self._tell(Kind.DELSA, wire.state_id(name))

    def sa(self, name: SaName) -> SaSeen:
        ((body, attributes),) = self._ask(Kind.GETSA, Kind.NEWSA, wire.state_id(name))
        return wire.read_state(body, attributes)

    def sas(self) -> list[SaSeen]:
        return [wire.read_state(*it) for it in self._ask(Kind.GETSA, Kind.NEWSA)]

    def give_spi(self, template: Template) -> SaName:
        """To the kernel's note that it has asked for this SA; without one it makes one."""
        ((body, attributes),) = self._ask(Kind.ALLOCSPI, Kind.NEWSA, wire.spi_wanted(template))
        return wire.read_state(body, attributes).name

    def put_policy(self, policy: Policy, index: int) -> None:
        body, attributes = wire.policy(policy, index)
        self._tell(Kind.UPDPOLICY, body, attributes, _NLM_F_CREATE)

    def remove_policy(self, direction: Direction, traffic: Traffic) -> None:
        self._tell(Kind.DELPOLICY, wire.policy_id(direction, traffic))

    def policies(self, mine: range) -> list[tuple[int, Direction, Traffic]]:
        """Those whose index is one of ours, with it."""
        read = (wire.read_policy(body, mine) for body, _ in self._ask(Kind.GETPOLICY, Kind.NEWPOLICY))
        return [found for found in read if found is not None]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(
        self, kind: Kind, body: bytes, attributes: dict[str, bytes] | None = None, flags: int = 0
    ) -> None:
        for _ in self._exchange(kind, body, attributes or {}, flags):
            pass

    def _ask(self, kind: Kind, answer: Kind, body: bytes = b"") -> list[tuple[bytes, dict[str, bytes]]]:
        flags = 0 if body else NLM_F_DUMP
        return [
            wire.body_and_attributes(answer, data)
            for number, data in self._exchange(kind, body, {}, flags)
            if number == answer
        ]

    def _exchange(
        self, kind: Kind, body: bytes, attributes: dict[str, bytes], flags: int
    ) -> Iterator[tuple[int, bytes]]:
        sequence = next(self._numbers)
        acknowledged = 0 if flags & NLM_F_DUMP == NLM_F_DUMP else NLM_F_ACK
        request = wire.message(
            kind, body, attributes, flags=NLM_F_REQUEST | acknowledged | flags, sequence=sequence
        )
        self._socket.sendto(request, (_KERNEL, 0))
        while True:
            for number, its_sequence, data in _messages(self._socket):
                if its_sequence != sequence:
                    continue
                if number == NLMSG_ERROR:
                    (code,) = struct.unpack_from("=i", data, _HEADER.size)
                    if code:
                        raise OSError(-code, os.strerror(-code))
                    return
                if number == NLMSG_DONE:
                    return
                yield number, data


class XfrmEvents:
    """What the kernel tells of one kind; `fileno` is readable while something waits."""

    def __init__(self, groups: int) -> None:
        self._socket = _open(groups)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def take_expired(self) -> Iterator[Expired]:
        """Never waits. Raises OSError(ENOBUFS) when some were lost."""
        for data in self._take(Kind.EXPIRE):
            yield wire.read_expire(wire.body_and_attributes(Kind.EXPIRE, data)[0])

    def take_acquired(self, mine: range) -> Iterator[Address]:
        """Destinations of packets that wait for an SA under one of our policies. Never waits. Raises OSError(ENOBUFS)."""
        for data in self._take(Kind.ACQUIRE):
            wanted = wire.read_acquire(wire.body_and_attributes(Kind.ACQUIRE, data)[0], mine)
            if wanted is not None:
                yield wanted

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, kind: Kind) -> Iterator[bytes]:
        while True:
            try:
                found = list(_messages(self._socket))
            except BlockingIOError:
                return
            yield from (data for number, _, data in found if number == kind)


def _open(groups: int) -> socket.socket:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_XFRM)
    try:
        opened.bind((0, groups))
    except OSError:
        opened.close()
        raise
    return opened


def _messages(opened: socket.socket) -> Iterator[tuple[int, int, bytes]]:
    """Of one datagram: type, sequence number, and the message with its header. Others than the kernel are not heard."""
    datagram, _, flags, (sender, _) = opened.recvmsg(_RECEIVE)
    if flags & socket.MSG_TRUNC:
        raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
    while sender == _KERNEL and len(datagram) >= _HEADER.size:
        length, number, _, sequence, _ = _HEADER.unpack_from(datagram)
        yield number, sequence, datagram[:length]
        datagram = datagram[(length + 3) & ~3 :]
