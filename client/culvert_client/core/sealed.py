"""How long a packet is once it is sealed, and how long it may be before."""

from __future__ import annotations

# RFC 791, RFC 8200; RFC 768; RFC 4303 section 2: SPI and number, pad length and next header, alignment; RFC 4106, 7634.
_OUTER = {4: 20, 6: 40}
_UDP, _ESP, _IV, _TRAILER, _ALIGNED, _ICV = 8, 8, 8, 2, 4, 16
# RFC 3602: no suite needs more.
_LONGEST_IV, _LONGEST_ALIGNED = 16, 16


def outer_length(inner: int, outer_version: int) -> int:
    """Bytes of the IP packet with ESP in UDP, for suites that are not legacy; `inner`: bytes of the inner packet."""
    padded = -(-(inner + _TRAILER) // _ALIGNED) * _ALIGNED
    return _OUTER[outer_version] + _UDP + _ESP + _IV + padded + _ICV


def inner_length(outer: int, outer_version: int, *, legacy: bool = False) -> int:
    """The length of the longest packet that is at most `outer` long once it is sealed.

    A legacy suite may have room for a few bytes more.
    """
    iv, aligned = (_LONGEST_IV, _LONGEST_ALIGNED) if legacy else (_IV, _ALIGNED)
    room = outer - _OUTER[outer_version] - _UDP - _ESP - iv - _ICV
    return room - room % aligned - _TRAILER
