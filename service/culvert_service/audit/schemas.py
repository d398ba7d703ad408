"""REST schemas of the audit log."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Literal

from culvert_db import AuditLine
from culvert_proto.dns_name import make_readable
from pydantic import BaseModel, PlainSerializer

from culvert_service.audit.line import Written, timestamp
from culvert_service.rest.stored_text import StoredText


class AuditLineOut(BaseModel):
    """`hash` covers the line and the hash of the line before it in its chain (docs/audit.md)."""

    chain: int
    seq: int
    at: Annotated[datetime, PlainSerializer(timestamp, when_used="json")]
    actor_kind: Literal["admin", "token", "device", "invitation", "system"]
    actor: str
    source: str | None
    action: str
    object: str
    outcome: Literal["done", "denied"]
    reason: str | None
    why: str | None
    details: dict[str, str | int]
    hash: str

    @classmethod
    def of(cls, line: AuditLine | Written) -> AuditLineOut:
        return cls(
            chain=line.chain,
            seq=line.seq,
            at=line.at,
            actor_kind=line.actor_kind.value,
            actor=line.actor,
            source=line.source,
            action=line.action,
            object=line.object,
            outcome=line.outcome.value,
            reason=line.reason,
            why=line.why,
            details=json.loads(line.details),
            hash=line.hash.hex(),
        )


class NamedLineOut(AuditLineOut):
    """`names`: by id, the names of devices that the line mentions and that still exist; and by text, the form for a reader
    of texts with A-labels and, with Accept-Language, of `why`."""

    names: dict[str, str]


class DeniedOut(BaseModel):
    """A device's last refusal."""

    at: datetime
    object: str
    reason: str | None
    why: StoredText | None
    # The name that was asked for, as people read it; null for another refusal.
    display_name: str | None

    @classmethod
    def of(cls, line: AuditLine) -> DeniedOut:
        kind, _, name = line.object.partition("/")
        return cls(
            at=line.at,
            object=line.object,
            reason=line.reason,
            why=line.why and make_readable(line.why),
            display_name=make_readable(name) if kind == "name" else None,
        )


class HourOut(BaseModel):
    """The devices' openings of tunnels, and their refusals, in the hour that begins at `at`."""

    at: datetime
    opened: int
    denied: int


class ChainOut(BaseModel):
    """A chain's last line."""

    chain: int
    seq: int
    hash: str


class BrokenOut(BaseModel):
    """The first line that was changed or is missing."""

    chain: int
    seq: int
    why: StoredText


class VerificationOut(BaseModel):
    """`lines`: the number of intact lines before the first fault. Also the ends of the checked chains."""

    lines: int
    ends: list[ChainOut]
    broken: BrokenOut | None


class RetentionOut(BaseModel):
    """`keep_days` null: all lines are kept. `kept_since`: no line from that time on was cut; null for an empty log.

    `removed`: the number of lines that were cut. `key`: the public key (Ed25519, hex) of the signatures of cuts.
    """

    keep_days: int | None
    kept_since: datetime | None
    removed: int
    key: str
