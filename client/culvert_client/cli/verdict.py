"""What `culvert doctor` says of one hop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """`hop` is a name in English that stays the same in every language, to be shown translated."""

    hop: str
    good: bool
    what: str
    remedy: str = ""
