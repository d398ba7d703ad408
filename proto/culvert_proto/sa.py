"""Limits of an SA, lengths of its packets, and whether its suite is allowed; all parts use these. Pure.

link MTU ─┬─ outer IP ─┬─ UDP ─┬─ SPI, sequence ─┬─ IV ─┬─ inner packet, padding, pad length, next header ─┬─ ICV
          │  20 or 40  │ 0, 8  │        8        │      │              a multiple of `block`               │
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from culvert_proto.contract import Suite
from culvert_proto.reasons import CulvertError, Reason

# RFC 791, RFC 8200; RFC 768; RFC 4303 section 2: SPI and sequence number, and pad length and next header.
_OUTER = {4: 20, 6: 40}
_UDP, _ESP_HEADER, _ESP_TRAILER = 8, 8, 2


@dataclass(frozen=True, slots=True)
class Limits:
    """0 means no limit of that kind. Bytes count inner packets, seconds begin with the SA's first packet."""

    packets: int = 0
    bytes: int = 0
    seconds: int = 0


NO_LIMITS = Limits()


def outer_length(inner: int, family: int, suite: Suite = Suite.AES_GCM_256, *, udp: bool = True) -> int:
    """Bytes of the outer packet, whose IP version is `family`, around `inner` bytes of inner packet."""
    padded = -(-(inner + _ESP_TRAILER) // suite.block) * suite.block
    return _around(family, suite, udp=udp) + padded


def inner_length(outer: int, family: int, suite: Suite = Suite.AES_GCM_256, *, udp: bool = True) -> int:
    """Bytes of the longest inner packet whose outer packet has at most `outer` bytes (RFC 4301 section 8)."""
    encrypted = outer - _around(family, suite, udp=udp)
    return encrypted - encrypted % suite.block - _ESP_TRAILER


def _around(family: int, suite: Suite, *, udp: bool) -> int:
    return _OUTER[family] + (_UDP if udp else 0) + _ESP_HEADER + suite.iv + suite.icv


def check_allowed(suite: Suite, legacy_suites: Collection[Suite], where: str) -> None:
    """Raises CulvertError SUITE_LEGACY for a legacy suite that `legacy_suites` does not name."""
    if suite.legacy and suite not in legacy_suites:
        raise CulvertError(Reason.SUITE_LEGACY, suite=suite.value, where=where)
