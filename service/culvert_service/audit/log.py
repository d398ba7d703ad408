"""Telling the audit log.

Lines wait with their session and are written as the last thing before its commit, so that the chain's end is locked for
the length of one commit, whatever else the transaction did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from culvert_db import ActorKind, AuditLine, Direct, Outcome, Statement
from culvert_proto import CulvertError
from culvert_proto.contract import DNS_NAME_MAX
from sqlalchemy import Table, bindparam, event, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from culvert_service.audit.line import Detail, canonical

# Writes the served call's audit lines in the transaction of its changes; gets that transaction's session. May raise.
effect: ContextVar[Callable[[Session], None] | None] = ContextVar("effect", default=None)

_LINES = cast("Table", AuditLine.__table__)
_INSERT = Statement(insert(_LINES).values({column.name: bindparam(column.name) for column in _LINES.c}))
_WAITING, _EFFECT = "culvert_audit", "culvert_effect"
# A caller chooses the names that it asks for: the log keeps what a name of DNS can be long. A detail may list many of them.
_TEXT_MAX, _DETAIL_MAX = DNS_NAME_MAX, 65536


@dataclass(frozen=True, slots=True)
class Actor:
    """The person, device or program that acts, and the call's source address."""

    kind: ActorKind
    name: str
    source: str | None = None


CONTROLLER = Actor(ActorKind.SYSTEM, "controller")
# Set where a call comes in; a task that serves no call acts for the controller.
acting: ContextVar[Actor] = ContextVar("acting", default=CONTROLLER)


@dataclass(frozen=True, slots=True)
class Line:
    """`action` is OBJECT.VERB, `object` is KIND/NAME. No field may hold a secret."""

    action: str
    object: str
    details: dict[str, Detail] = field(default_factory=dict[str, Detail])
    why: CulvertError | None = None
    outcome: Outcome = Outcome.DONE
    actor: Actor | None = None


def tell(session: AsyncSession | Direct, line: Line) -> None:
    """The line is in the log if, and only if, the session's transaction, which has begun, commits."""
    if isinstance(session, Direct):
        # What has an effect to keep is asked for over REST.
        assert effect.get() is None
        _INSERT.run_last(session, _row(line))
        return
    assert session.in_transaction()
    if line.outcome is Outcome.DONE:
        session.sync_session.info[_EFFECT] = effect.get()
    waiting: list[dict[str, Any]] = session.sync_session.info.setdefault(_WAITING, [])
    waiting.append(_row(line))


def by_device(device_id: UUID) -> Actor:
    """The device behind this call."""
    return Actor(ActorKind.DEVICE, str(device_id), acting.get().source)


@contextmanager
def controller_acts() -> Generator[None]:
    """For work that the controller does on its own, in a task that an admin's call may have started."""
    token = acting.set(CONTROLLER)
    try:
        yield
    finally:
        acting.reset(token)


@event.listens_for(Session, "before_commit")
def _write(session: Session) -> None:
    if lines := session.info.pop(_WAITING, None):
        session.flush()
        if write := session.info.pop(_EFFECT, None):
            write(session)
        _INSERT.run_in(session, lines)


@event.listens_for(Session, "after_soft_rollback")
def _forget(session: Session, _previous: object) -> None:
    session.info.pop(_WAITING, None)
    session.info.pop(_EFFECT, None)


def _row(line: Line) -> dict[str, Any]:
    actor = line.actor or acting.get()
    return {
        # The trigger's to fill; the table wants them present.
        "chain": 0,
        "seq": 0,
        "at": None,
        "hash": None,
        "actor_kind": actor.kind,
        "actor": _text(actor.name),
        "source": actor.source,
        "action": line.action,
        "object": _text(line.object),
        "outcome": line.outcome,
        "reason": line.why.reason.name if line.why else None,
        "why": _text(line.why.message) if line.why else None,
        "details": canonical(
            {
                key: _text(value, _DETAIL_MAX) if isinstance(value, str) else value
                for key, value in line.details.items()
            }
        ),
    }


def _text(value: str, most: int = _TEXT_MAX) -> str:
    """What is longer ends with how much was left out, and the SHA-256 of the whole."""
    # Postgres has no NUL in texts.
    text = value.replace("\0", "�")
    if len(text) <= most:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    said = f"… {len(text)} characters, SHA-256 {digest}"
    return text[: most - len(said)] + said
