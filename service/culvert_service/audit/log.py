"""Lines of the audit log: the act, its actor, and the refusal's reason."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from culvert_db import ActorKind, Outcome
from culvert_proto import CulvertError
from culvert_proto.contract import DNS_NAME_MAX
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.line import Detail, canonical

# Callers choose the names in requests: a text is cut at the longest DNS name. A detail may list many names.
_TEXT_MAX, _DETAIL_MAX = DNS_NAME_MAX, 65536


class Claim(Protocol):
    """A request's claim of its Idempotency-Key."""

    async def carry_out(self, session: AsyncSession) -> None:
        """In the transaction of the request's changes. Raises CulvertError IDEMPOTENCY_KEY_BUSY for another's claim."""
        ...


@dataclass(frozen=True, slots=True)
class Actor:
    """The person, device or program that acts, the call's source address, and the claim of its Idempotency-Key, if any."""

    kind: ActorKind
    name: str
    source: str | None = None
    claim: Claim | None = field(default=None, compare=False, repr=False)

    def with_name(self, kind: ActorKind, name: object) -> Actor:
        """The same caller under the name that a check has found."""
        return replace(self, kind=kind, name=str(name))


CONTROLLER = Actor(ActorKind.SYSTEM, "controller")


@dataclass(frozen=True, slots=True)
class Line:
    """`action` is OBJECT.VERB, `object` is KIND/NAME, `actor` None is the transaction's. No field may hold a secret."""

    action: str
    object: str
    details: dict[str, Detail] = field(default_factory=dict[str, Detail])
    why: CulvertError | None = None
    outcome: Outcome = Outcome.DONE
    actor: Actor | None = None

    def row(self, by: Actor) -> dict[str, Any]:
        """The columns of `audit_lines`."""
        actor = self.actor or by
        return {
            # The trigger fills these; the table requires values.
            "chain": 0,
            "seq": 0,
            "at": None,
            "hash": None,
            "actor_kind": actor.kind,
            "actor": _text(actor.name),
            "source": actor.source,
            "action": self.action,
            "object": _text(self.object),
            "outcome": self.outcome,
            "reason": self.why.reason.name if self.why else None,
            "why": _text(self.why.message) if self.why else None,
            "details": canonical(
                {
                    key: _text(value, _DETAIL_MAX) if isinstance(value, str) else value
                    for key, value in self.details.items()
                }
            ),
        }


def _text(value: str, most: int = _TEXT_MAX) -> str:
    """Shorten a long text: it ends with the number of left-out characters, and the SHA-256 of the whole."""
    # Postgres has no NUL in texts.
    text = value.replace("\0", "�")
    if len(text) <= most:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    said = f"… {len(text)} characters, SHA-256 {digest}"
    return text[: most - len(said)] + said
