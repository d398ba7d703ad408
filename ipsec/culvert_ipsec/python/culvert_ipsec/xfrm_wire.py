"""Encodes and decodes XFRM's netlink messages (linux/xfrm.h, kernel 3.9 and later). Without I/O.

pyroute2 frames the messages and their attributes. The structures are packed here, all of them as bytes: pyroute2
logs what it cannot pack, and some of it is keys.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_network
from socket import AF_INET, AF_INET6
from typing import Any, cast

from culvert_proto.contract import FIRST_SPI
from culvert_proto.sa import Limits

from culvert_ipsec.netlink import HEADER_LENGTH
from culvert_ipsec.netlink_messages import nlmsg
from culvert_ipsec.xfrm_values import (
    Address,
    Algorithms,
    Direction,
    Expired,
    Policy,
    Ports,
    Replay,
    Sa,
    SaName,
    SaSeen,
    Template,
    Traffic,
)

# linux/xfrm.h, linux/udp.h, IANA.
ESP = 50
MODE_TUNNEL = 1
ACTION_ALLOW = 0
STATE_AF_UNSPEC, STATE_ESN = 32, 128
UDP_ENCAP_ESPINUDP = 2
LAST_SPI = 0xFFFFFFFF
NO_LIMIT = (1 << 64) - 1
ALL_ALGORITHMS = (1 << 32) - 1

# The padding is that of a C compiler on a 64-bit machine.
_SELECTOR = struct.Struct("=16s16s2s2s2s2sHBBB3xiI")
_ID = struct.Struct("=16s4sB3x")
_LIFETIME = struct.Struct("=8Q")
_CURRENT = struct.Struct("=4Q")
_STATE = struct.Struct("=56s24s16s64s32s3I2IHBBB7x")
_STATE_ID = struct.Struct("=16s4sHBx")
_POLICY = struct.Struct("=56s64s32sIIBBBB4x")
_POLICY_ID = struct.Struct("=56sIB3x")
_TEMPLATE = struct.Struct("=24sH2x16sIBBBx3I")
_ENCAP = struct.Struct("=H2s2s2x16s")
_ALGORITHM = struct.Struct("=64sI")
_ALGORITHM_ICV = struct.Struct("=64sII")
_REPLAY = struct.Struct("=6I")
_EXPIRE = struct.Struct("=224sB7x")
_ACQUIRE = struct.Struct("=24s16s56s168s4I")
_SPI_WANTED = struct.Struct("=224sII")

_VERSIONS = {4: AF_INET, 6: AF_INET6}


class MessageType(enum.IntEnum):
    """Message types."""

    NEWSA = 0x10
    DELSA = 0x11
    GETSA = 0x12
    DELPOLICY = 0x14
    GETPOLICY = 0x15
    ALLOCSPI = 0x16
    ACQUIRE = 0x17
    EXPIRE = 0x18
    UPDPOLICY = 0x19
    UPDSA = 0x1A
    NEWPOLICY = 0x13


_ATTRIBUTES = {
    "XFRMA_ALG_CRYPT": 2,
    "XFRMA_ENCAP": 4,
    "XFRMA_TMPL": 5,
    "XFRMA_ALG_AEAD": 18,
    "XFRMA_ALG_AUTH_TRUNC": 20,
    "XFRMA_REPLAY_ESN_VAL": 23,
    "XFRMA_SET_MARK": 29,
}
ALGORITHMS = frozenset({"XFRMA_ALG_CRYPT", "XFRMA_ALG_AEAD", "XFRMA_ALG_AUTH_TRUNC"})
"""Every SA has at least one of them."""


class _Message(nlmsg):  # pyright: ignore[reportUntypedBaseClass]
    """Attributes that are not listed are ignored."""

    nla_map = tuple((number, name, "cdata") for name, number in _ATTRIBUTES.items())


class _NoBody(_Message):
    fields = ()


class _State(_Message):
    fields = (("body", "224s"),)


class _StateId(_Message):
    fields = (("body", "24s"),)


class _Policy(_Message):
    fields = (("body", "168s"),)


class _PolicyId(_Message):
    fields = (("body", "64s"),)


class _Expire(_Message):
    fields = (("body", "232s"),)


class _Acquire(_Message):
    fields = (("body", "280s"),)


class _SpiWanted(_Message):
    fields = (("body", "232s"),)


_BODIES: dict[MessageType, type[_Message]] = {
    MessageType.NEWSA: _State,
    MessageType.UPDSA: _State,
    MessageType.DELSA: _StateId,
    MessageType.GETSA: _StateId,
    MessageType.NEWPOLICY: _Policy,
    MessageType.UPDPOLICY: _Policy,
    MessageType.DELPOLICY: _PolicyId,
    MessageType.EXPIRE: _Expire,
    MessageType.ACQUIRE: _Acquire,
    MessageType.ALLOCSPI: _SpiWanted,
}


def payload(kind: MessageType, body: bytes, attributes: Mapping[str, bytes]) -> bytes:
    """The request without the netlink header. Without a body it requests all entries."""
    made = cast(Any, _BODIES[kind] if body else _NoBody)()
    if body:
        made["body"] = body
    made["attrs"] = list(attributes.items())
    made.encode()
    return bytes(made.data)[HEADER_LENGTH:]


def body_and_attributes(kind: MessageType, data: bytes) -> tuple[bytes, dict[str, bytes]]:
    """The body and the attributes of a message with its header."""
    read = cast(Any, _BODIES[kind])(data)
    read.decode()
    return bytes(read["body"]), {name: bytes(value) for name, value in read["attrs"] if name in _ATTRIBUTES}


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def state(sa: Sa, after: Replay) -> tuple[bytes, dict[str, bytes]]:
    """The body and attributes of NEWSA; its sequence numbers begin after these."""
    flags = STATE_AF_UNSPEC | (STATE_ESN if sa.esn else 0)
    identity = _ID.pack(_address(sa.dst), sa.spi.to_bytes(4), ESP)
    lifetime, current = _lifetime(sa.soft, sa.hard), bytes(_CURRENT.size)
    body = _STATE.pack(
        bytes(_SELECTOR.size), identity, _address(sa.src), lifetime, current, 0, 0, 0, 0, sa.reqid,
        _VERSIONS[sa.dst.version], MODE_TUNNEL, 0, flags,
    )  # fmt: skip
    attributes = _algorithms(sa.algorithms)
    attributes["XFRMA_ENCAP"] = encapsulation(sa.ports)
    attributes["XFRMA_REPLAY_ESN_VAL"] = replay(after, sa.window)
    if sa.mark:
        attributes["XFRMA_SET_MARK"] = struct.pack("=I", sa.mark)
    return body, attributes


def state_id(name: SaName) -> bytes:
    dst, spi = name
    return _STATE_ID.pack(_address(dst), spi.to_bytes(4), _VERSIONS[dst.version], ESP)


def spi_wanted(template: Template) -> bytes:
    """The body of ALLOCSPI for any SPI that is not reserved (RFC 4303 section 2.1)."""
    identity = _ID.pack(_address(template.dst), bytes(4), ESP)
    info = _STATE.pack(
        bytes(_SELECTOR.size), identity, _address(template.src), _lifetime(Limits(), Limits()),
        bytes(_CURRENT.size), 0, 0, 0, 0, template.reqid, _VERSIONS[template.dst.version], MODE_TUNNEL, 0, 0,
    )  # fmt: skip
    return _SPI_WANTED.pack(info, FIRST_SPI, LAST_SPI)


def policy(wanted: Policy, index: int) -> tuple[bytes, dict[str, bytes]]:
    """The body and attributes of UPDPOLICY. A policy that replaces another keeps its index."""
    lifetime, current = _lifetime(Limits(), Limits()), bytes(_CURRENT.size)
    body = _POLICY.pack(
        selector(wanted.traffic),
        lifetime,
        current,
        wanted.priority,
        index,
        wanted.direction,
        ACTION_ALLOW,
        0,
        0,
    )
    return body, {} if wanted.template is None else {"XFRMA_TMPL": template(wanted.template)}


def policy_id(direction: Direction, traffic: Traffic) -> bytes:
    return _POLICY_ID.pack(selector(traffic), 0, direction)


def selector(traffic: Traffic) -> bytes:
    ports: list[bytes] = []
    for side in (traffic.dst_ports, traffic.src_ports):
        ports += [side.value.to_bytes(2), side.mask.to_bytes(2)]
    return _SELECTOR.pack(
        _address(traffic.dst.network_address), _address(traffic.src.network_address), *ports,
        _VERSIONS[traffic.dst.version], traffic.dst.prefixlen, traffic.src.prefixlen, traffic.protocol, 0, 0,
    )  # fmt: skip


def template(wanted: Template) -> bytes:
    identity = _ID.pack(_address(wanted.dst), wanted.spi.to_bytes(4), ESP)
    family, every = _VERSIONS[wanted.dst.version], (ALL_ALGORITHMS,) * 3
    return _TEMPLATE.pack(identity, family, _address(wanted.src), wanted.reqid, MODE_TUNNEL, 0, 0, *every)


def encapsulation(ports: tuple[int, int]) -> bytes:
    """The last field is an original address, which the kernel ignores."""
    return _ENCAP.pack(UDP_ENCAP_ESPINUDP, ports[0].to_bytes(2), ports[1].to_bytes(2), bytes(16))


def replay(after: Replay, window: int) -> bytes:
    """struct xfrm_replay_state_esn. The kernel requires at least one word of bitmap, also for outbound SAs."""
    words = max(1, (window + 31) // 32)
    low = 0xFFFFFFFF
    numbers = (after.sent & low, after.received & low, after.sent >> 32, after.received >> 32)
    seen = b"\xff" if after.received else b"\0"
    return _REPLAY.pack(words, *numbers, window) + seen * (4 * words)


def _algorithms(its: Algorithms) -> dict[str, bytes]:
    cipher, bits = its.cipher.encode(), 8 * len(its.key)
    if not its.integrity:
        return {"XFRMA_ALG_AEAD": _ALGORITHM_ICV.pack(cipher, bits, its.icv_bits) + its.key}
    mac = _ALGORITHM_ICV.pack(its.integrity.encode(), 8 * len(its.integrity_key), its.icv_bits)
    return {
        "XFRMA_ALG_CRYPT": _ALGORITHM.pack(cipher, bits) + its.key,
        "XFRMA_ALG_AUTH_TRUNC": mac + its.integrity_key,
    }


def _lifetime(soft: Limits, hard: Limits) -> bytes:
    counts = (soft.bytes, hard.bytes, soft.packets, hard.packets)
    # The seconds count from the first use; only for them 0 means no limit.
    return _LIFETIME.pack(*(count or NO_LIMIT for count in counts), 0, 0, soft.seconds, hard.seconds)


def _address(address: Address) -> bytes:
    return address.packed.ljust(16, b"\0")


# ── answers and notices ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_state(body: bytes, attributes: Mapping[str, bytes]) -> SaSeen:
    _, identity, _, _, current, late, replayed, forged, _, reqid, family, *_ = _STATE.unpack(body)
    dst, spi, _ = _ID.unpack(identity)
    octets, packets, _, _ = _CURRENT.unpack(current)
    numbers = Replay()
    if esn := attributes.get("XFRMA_REPLAY_ESN_VAL"):
        _, sent, received, sent_high, received_high, _ = _REPLAY.unpack_from(esn)
        numbers = Replay(sent_high << 32 | sent, received_high << 32 | received)
    name = _parse_address(dst, family), int.from_bytes(spi)
    return SaSeen(name, reqid, packets, octets, late, replayed, forged, numbers)


def read_expire(body: bytes) -> Expired:
    inner, hard = _EXPIRE.unpack(body)
    return Expired(read_state(inner, {}), bool(hard))


def read_acquire(body: bytes, mine: range) -> Address | None:
    """The trapped packet's destination; None if the policy is another program's."""
    _, _, chosen, under, *_ = _ACQUIRE.unpack(body)
    if read_policy(under, mine) is None:
        return None
    return read_selector(chosen).dst.network_address


def read_policy(body: bytes, mine: range) -> tuple[int, Direction, Traffic] | None:
    """Our policy with its index, from which the kernel's direction bits are removed; None for another program's policy."""
    chosen, _, _, _, index, direction, *_ = _POLICY.unpack(body)
    base = index & ~7
    return (base, Direction(direction), read_selector(chosen)) if base in mine else None


def read_selector(data: bytes) -> Traffic:
    dst, src, dport, dmask, sport, smask, family, dst_length, src_length, protocol, _, _ = _SELECTOR.unpack(
        data
    )
    source, target = (
        ip_network((_parse_address(raw, family), length))
        for raw, length in ((src, src_length), (dst, dst_length))
    )
    sides = (
        Ports(int.from_bytes(value), int.from_bytes(mask)) for value, mask in ((sport, smask), (dport, dmask))
    )
    return Traffic(source, target, protocol, *sides)


def _parse_address(raw: bytes, family: int) -> Address:
    return IPv6Address(raw) if family == AF_INET6 else IPv4Address(raw[:4])
