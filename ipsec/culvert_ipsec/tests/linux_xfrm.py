"""The structures of linux/xfrm.h as a C compiler lays them out, and netlink's framing: what messages are read with here."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from ctypes import BigEndianStructure, Structure, c_int, c_uint8, c_uint16, c_uint32, c_uint64
from typing import Any, cast

Address = c_uint32 * 4


class Be16(BigEndianStructure):
    _fields_ = (("value", c_uint16),)


class Be32(BigEndianStructure):
    _fields_ = (("value", c_uint32),)


class Selector(Structure):
    _fields_ = (
        ("daddr", Address), ("saddr", Address), ("dport", Be16), ("dport_mask", Be16), ("sport", Be16),
        ("sport_mask", Be16), ("family", c_uint16), ("prefixlen_d", c_uint8), ("prefixlen_s", c_uint8),
        ("proto", c_uint8), ("ifindex", c_int), ("user", c_uint32),
    )  # fmt: skip


class Id(Structure):
    _fields_ = (("daddr", Address), ("spi", Be32), ("proto", c_uint8))


class Lifetime(Structure):
    _fields_ = tuple(
        (f"{kind}_{what}", c_uint64)
        for what in ("byte_limit", "packet_limit", "add_expires_seconds", "use_expires_seconds")
        for kind in ("soft", "hard")
    )


class Current(Structure):
    _fields_ = tuple((name, c_uint64) for name in ("bytes", "packets", "add_time", "use_time"))


class Stats(Structure):
    _fields_ = tuple((name, c_uint32) for name in ("replay_window", "replay", "integrity_failed"))


class SaInfo(Structure):
    _fields_ = (
        ("sel", Selector), ("id", Id), ("saddr", Address), ("lft", Lifetime), ("curlft", Current), ("stats", Stats),
        ("seq", c_uint32), ("reqid", c_uint32), ("family", c_uint16), ("mode", c_uint8), ("replay_window", c_uint8),
        ("flags", c_uint8),
    )  # fmt: skip


class SaId(Structure):
    _fields_ = (("daddr", Address), ("spi", Be32), ("family", c_uint16), ("proto", c_uint8))


class PolicyInfo(Structure):
    _fields_ = (
        ("sel", Selector), ("lft", Lifetime), ("curlft", Current), ("priority", c_uint32), ("index", c_uint32),
        ("dir", c_uint8), ("action", c_uint8), ("flags", c_uint8), ("share", c_uint8),
    )  # fmt: skip


class PolicyId(Structure):
    _fields_ = (("sel", Selector), ("index", c_uint32), ("dir", c_uint8))


class Template(Structure):
    _fields_ = (
        ("id", Id), ("family", c_uint16), ("saddr", Address), ("reqid", c_uint32), ("mode", c_uint8),
        ("share", c_uint8), ("optional", c_uint8), ("aalgos", c_uint32), ("ealgos", c_uint32), ("calgos", c_uint32),
    )  # fmt: skip


class Encap(Structure):
    _fields_ = (
        ("encap_type", c_uint16),
        ("encap_sport", Be16),
        ("encap_dport", Be16),
        ("encap_oa", Address),
    )


class Expire(Structure):
    _fields_ = (("state", SaInfo), ("hard", c_uint8))


class Acquire(Structure):
    _fields_ = (
        ("id", Id), ("saddr", Address), ("sel", Selector), ("policy", PolicyInfo), ("aalgos", c_uint32),
        ("ealgos", c_uint32), ("calgos", c_uint32), ("seq", c_uint32),
    )  # fmt: skip


class SpiInfo(Structure):
    _fields_ = (("info", SaInfo), ("min", c_uint32), ("max", c_uint32))


class Algo(Structure):
    _fields_ = (("alg_name", ctypes.c_char * 64), ("alg_key_len", c_uint32))


class AlgoIcv(Structure):
    """The layout of xfrm_algo_auth and xfrm_algo_aead."""

    _fields_ = (("alg_name", ctypes.c_char * 64), ("alg_key_len", c_uint32), ("alg_icv_len", c_uint32))


class ReplayEsn(Structure):
    _fields_ = tuple(
        (name, c_uint32) for name in ("bmp_len", "oseq", "seq", "oseq_hi", "seq_hi", "replay_window")
    )


def filled(kind: type[Structure], **fields: object) -> bytes:
    """A structure with these fields, `outer__inner` for nested ones, and zeros."""
    made = kind()
    for path, value in fields.items():
        *outer, name = path.split("__")
        place = made
        for step in outer:
            place = getattr(place, step)
        current = getattr(place, name)
        if isinstance(current, Address) and isinstance(value, bytes):
            ctypes.memmove(cast(Any, current), value, len(value))
        elif isinstance(current, Be16 | Be32):
            current.value = value
        else:
            setattr(place, name, value)
    return bytes(made)


def payload(body: bytes, attributes: Mapping[int, bytes]) -> bytes:
    """netlink(7): each attribute with its length, type and padding."""
    for number, value in attributes.items():
        body += struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)
    return body


def framed(kind: int, body: bytes, attributes: Mapping[int, bytes]) -> bytes:
    """A message with the header that the kernel gives to its notifications."""
    data = payload(body, attributes)
    return struct.pack("=IHHII", 16 + len(data), kind, 0, 0, 0) + data
