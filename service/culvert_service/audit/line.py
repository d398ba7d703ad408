"""A line's bytes and hash, the same as in the database's trigger, and the check of chains. Pure."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from culvert_db import ActorKind, AuditLine, Outcome

# The number of chains to which connections append, numbered from 0.
CHAINS = 16
# The hash before a chain's first line.
GENESIS = bytes(32)

Detail = str | int


class Written(NamedTuple):
    """A line of the database: the columns of `audit_lines` in their order."""

    chain: int
    seq: int
    at: datetime.datetime
    actor_kind: ActorKind
    actor: str
    source: str | None
    action: str
    object: str
    outcome: Outcome
    reason: str | None
    why: str | None
    details: str
    hash: bytes


@dataclass(frozen=True, slots=True)
class Broken:
    """The first line of a chain that was changed or is missing."""

    chain: int
    seq: int
    why: str


def canonical(details: Mapping[str, Detail]) -> str:
    """RFC 8785, for an object of ASCII names with texts and integers below 2^53."""
    return json.dumps(details, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def timestamp(at: datetime.datetime) -> str:
    """UTC with microseconds, in a fixed length."""
    return at.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def digest(before: bytes, line: AuditLine | Written) -> bytes:
    """SHA-256 over the previous hash and a netstring for each field; "-" for an absent field."""
    fields = (
        str(line.chain),
        str(line.seq),
        timestamp(line.at),
        line.actor_kind.value,
        line.actor,
        line.source,
        line.action,
        line.object,
        line.outcome.value,
        line.reason,
        line.why,
        line.details,
    )
    return hashlib.sha256(before + b"".join(map(netstring, fields))).digest()


class Verification:
    """Takes lines in the order of chain and number. `ends` has the number and hash of each chain's last taken line."""

    def __init__(self) -> None:
        self.ends: dict[int, tuple[int, bytes]] = {}
        self.lines = 0

    def begin(self, chain: int, seq: int, end: bytes) -> None:
        """The chain's lines up to number `seq` have been cut; `end` is the hash of the last cut line."""
        self.ends[chain] = (seq, end)

    def take(self, lines: Iterable[AuditLine | Written]) -> Broken | None:
        for line in lines:
            seq, before = self.ends.get(line.chain, (0, GENESIS))
            if line.seq <= seq:
                return Broken(line.chain, line.seq, "it is there, although it was cut")
            if line.seq != seq + 1:
                return Broken(line.chain, seq + 1, "it is not there")
            if digest(before, line) != line.hash:
                return Broken(line.chain, line.seq, "its hash does not match its content and the line before")
            self.ends[line.chain] = (line.seq, line.hash)
            self.lines += 1
        return None


def netstring(value: str | None) -> bytes:
    if value is None:
        return b"-"
    encoded = value.encode()
    return b"%d:%s," % (len(encoded), encoded)
