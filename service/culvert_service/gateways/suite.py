"""How an SA encrypts and authenticates, and what that leaves of a packet. Pure.

link MTU ─┬─ outer IP ─┬─ UDP ─┬─ SPI, sequence ─┬─ IV ─┬─ inner packet, padding, pad length, next header ─┬─ ICV
          │  20 or 40  │ 0, 8  │        8        │      │            a multiple of `alignment`           │
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from culvert_proto import CulvertError, Reason

_IPV4_HEADER, _IPV6_HEADER, _UDP_HEADER = 20, 40, 8
# RFC 4303 section 2: SPI and sequence number before the payload; pad length and next header at its end.
_ESP_HEADER, _ESP_TRAILER = 8, 2


@dataclass(frozen=True, slots=True)
class Shape:
    """Lengths in bytes. `key`: key material, in the order of the suite's RFC; `alignment`: of the encrypted part."""

    number: int
    key: int
    iv: int
    icv: int
    alignment: int = 4
    legacy: bool = False


class Suite(enum.Enum):
    """By the name that people type; the number is p4/gateway's and culvert.agent.v1's."""

    AES_GCM_256 = "aes-gcm-256"
    AES_GCM_128 = "aes-gcm-128"
    CHACHA20_POLY1305 = "chacha20-poly1305"
    NULL_HMAC_SHA_256_128 = "null-hmac-sha256-128"
    AES_CTR_128_HMAC_MD5_96 = "aes-ctr-hmac-md5-96"
    AES_CBC_128_HMAC_SHA1_96 = "aes-cbc-hmac-sha1-96"
    AES_CBC_256_HMAC_SHA_256_128 = "aes-cbc-hmac-sha256-128"

    @classmethod
    def of(cls, number: int) -> Suite:
        """The suite with this number in the tables. Raises KeyError."""
        return _BY_NUMBER[number]

    @property
    def shape(self) -> Shape:
        return _SHAPES[self]

    @property
    def legacy(self) -> bool:
        return self.shape.legacy


_SHAPES = {
    # RFC 4106.
    Suite.AES_GCM_256: Shape(1, key=32 + 4, iv=8, icv=16),
    Suite.AES_GCM_128: Shape(2, key=16 + 4, iv=8, icv=16),
    # RFC 7634.
    Suite.CHACHA20_POLY1305: Shape(3, key=32 + 4, iv=8, icv=16),
    # RFC 2410, 4868.
    Suite.NULL_HMAC_SHA_256_128: Shape(129, key=32, iv=0, icv=16, legacy=True),
    # RFC 3686, 2403.
    Suite.AES_CTR_128_HMAC_MD5_96: Shape(130, key=16 + 4 + 16, iv=8, icv=12, legacy=True),
    # RFC 3602, 2404.
    Suite.AES_CBC_128_HMAC_SHA1_96: Shape(131, key=16 + 20, iv=16, icv=12, alignment=16, legacy=True),
    # RFC 3602, 4868.
    Suite.AES_CBC_256_HMAC_SHA_256_128: Shape(132, key=32 + 32, iv=16, icv=16, alignment=16, legacy=True),
}


_BY_NUMBER = {shape.number: suite for suite, shape in _SHAPES.items()}


def inner_mtu(suite: Suite, *, link_mtu: int, outer_family: int, udp: bool) -> int:
    """Bytes of the largest inner packet whose ESP packet fits the link (RFC 4301 section 8)."""
    shape = suite.shape
    outer = (_IPV6_HEADER if outer_family == 6 else _IPV4_HEADER) + (_UDP_HEADER if udp else 0)
    encrypted = link_mtu - outer - _ESP_HEADER - shape.iv - shape.icv
    return encrypted - encrypted % shape.alignment - _ESP_TRAILER


def check_allowed(suite: Suite, legacy_suites: list[Suite], where: str) -> None:
    """Raises CulvertError SUITE_LEGACY for a legacy suite that nobody has turned on."""
    if suite.legacy and suite not in legacy_suites:
        raise CulvertError(Reason.SUITE_LEGACY, suite=suite.value, where=where)
