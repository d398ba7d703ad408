"""The verdict of `culvert doctor` on one hop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from culvert_proto import CulvertError

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
    "last denial",
]
"""In English, the same in every language; shown translated."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`shell`: the remedy's command, in words for a terminal."""

    hop: Hop
    good: bool
    what: str
    remedy: str = ""
    shell: str = ""


def fault(hop: Hop, error: CulvertError, what: str = "") -> Verdict:
    """`what`: in place of the error's message."""
    return Verdict(hop, False, what or error.message, error.remedy, error.shell)
