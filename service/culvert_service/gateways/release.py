"""Whether a gateway's software is older than the controller's: SemVer 2.0, section 11. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBER = r"(0|[1-9]\d{0,17})"
_IDENTIFIER = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)
# The longest product that is taken from a gateway's header.
_LENGTH = 64
_PRODUCT = "sluice/"
_Precedence = tuple[tuple[int, ...], bool, list[tuple[bool, int, str]]]


def read_product(metadata: Mapping[str, str | bytes]) -> str | None:
    """The version in the field `server` (RFC 9110 section 10.2.4) of an answer of sluice; None for another switch, and for
    a sluice that does not tell it.
    """
    told = metadata.get("server")
    if not isinstance(told, str) or len(told) > _LENGTH or not told.startswith(_PRODUCT):
        return None
    version = told.removeprefix(_PRODUCT)
    return version if _VERSION.fullmatch(version) else None


def is_older(version: str | None, than: str) -> bool:
    """False where one of the two is unknown or no version of ours: then nothing is claimed."""
    one, other = _precedence(version or ""), _precedence(than)
    return one is not None and other is not None and one < other


def _precedence(version: str) -> _Precedence | None:
    found = _VERSION.fullmatch(version)
    if found is None:
        return None
    *numbers, before = found.groups()
    identifiers = before.split(".") if before else []
    # A version before a release comes before it, and a number before a word.
    parts = [(not it.isdecimal(), int(it) if it.isdecimal() else 0, it) for it in identifiers]
    return tuple(map(int, numbers)), before is None, parts
