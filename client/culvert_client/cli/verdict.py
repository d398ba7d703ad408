"""The verdict of `culvert doctor` on one hop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Hop = Literal[
    "daemon",
    "datapath",
    "state",
    "DNS path",
    "watch mode",
    "enrolment",
    "controller",
    "pause",
    "clock",
    "certificate",
    "rest",
    "code",
    "gateway",
    "MTU",
    "addresses",
    "TXT",
    "public networks",
    "packets",
    "last refusal",
]
"""In English, the same in every language; shown translated."""


@dataclass(frozen=True, slots=True)
class Verdict:
    hop: Hop
    good: bool
    what: str
    remedy: str = ""
